#include "kernels/cuda/backend.h"

#include "base/json.h"
#include "device/cuda_support.h"
#include "kernels/cpu/optimizer_ops.h"
#include "kernels/cuda/model_ops.h"
#include "kernels/cuda/optimizer_ops.h"

namespace ebb::kernels {
namespace {

// Raised whenever a kernel's order of operations or a rounding changes.
constexpr int kRevision = 4;

Json cuda_numerics() {
  const device::CudaDescription gpu = device::describe_cuda();
  return {{"revision", kRevision},
          {"gpu", gpu.name},
          {"compute_capability", gpu.compute_capability},
          {"model", cuda_model_numerics()}};
}

}  // namespace

Backend create_cuda_backend(device::Device&, ThreadPool& pool) {
  return {.model = create_cuda_model_ops(),
          .device_optimizer = std::make_unique<CudaOptimizerOps>(),
          .host_optimizer = std::make_unique<CpuOptimizerOps>(pool),
          .numerics = std::make_shared<const Json>(cuda_numerics())};
}

}  // namespace ebb::kernels
