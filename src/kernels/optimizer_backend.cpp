#include "kernels/optimizer_backend.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/optimizer_ops.h"

namespace ebb::kernels {

std::unique_ptr<OptimizerOps> create_device_optimizer(device::Device& device, ThreadPool& pool) {
  return device.kind() == "cuda" ? create_cuda_optimizer() : create_host_optimizer(pool);
}

std::unique_ptr<OptimizerOps> create_host_optimizer(ThreadPool& pool) {
  use_isa_of_environment();
  return std::make_unique<CpuOptimizerOps>(pool);
}

}  // namespace ebb::kernels
