#include "kernels/optimizer_backend.h"

#include "kernels/cuda/optimizer_ops.h"

namespace ebb::kernels {

std::unique_ptr<OptimizerOps> create_cuda_optimizer() {
  return std::make_unique<CudaOptimizerOps>();
}

}  // namespace ebb::kernels
