#include "kernels/optimizer_library.h"

#include "kernels/cuda/optimizer_ops.h"

namespace ebb::kernels {
namespace {

class CudaOptimizerLibrary final : public OptimizerLibrary {
 public:
  Bound<OptimizerOps> ops(const ExecutionContext& context) override {
    return Bound<OptimizerOps>(std::in_place_type<CudaOptimizerOps>, context);
  }
};

}  // namespace

std::unique_ptr<OptimizerLibrary> create_cuda_optimizer() {
  return std::make_unique<CudaOptimizerLibrary>();
}

}  // namespace ebb::kernels
