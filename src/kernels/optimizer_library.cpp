#include "kernels/optimizer_library.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/optimizer_ops.h"

namespace ebb::kernels {
namespace {

class CpuOptimizerLibrary final : public OptimizerLibrary {
 public:
  explicit CpuOptimizerLibrary(ThreadPool& pool) : pool_(pool) {}
  Bound<OptimizerOps> ops(const ExecutionContext&) override {
    return Bound<OptimizerOps>(std::in_place_type<CpuOptimizerOps>, pool_);
  }

 private:
  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<OptimizerLibrary> create_device_optimizer(device::Device& device,
                                                          ThreadPool& pool) {
  return device.kind() == "cuda" ? create_cuda_optimizer() : create_host_optimizer(pool);
}

std::unique_ptr<OptimizerLibrary> create_host_optimizer(ThreadPool& pool) {
  use_isa_of_environment();
  return std::make_unique<CpuOptimizerLibrary>(pool);
}

}  // namespace ebb::kernels
