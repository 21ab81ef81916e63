#include "kernels/cuda/backend.h"

#include "base/json.h"
#include "device/cuda_support.h"
#include "kernels/cuda/model_library.h"

namespace ebb::kernels {
namespace {

// Raised whenever a kernel's order of operations or a rounding changes.
constexpr int kRevision = 5;

Json cuda_numerics() {
  const device::CudaDescription gpu = device::describe_cuda();
  return {{"revision", kRevision},
          {"gpu", gpu.name},
          {"compute_capability", gpu.compute_capability},
          {"model", cuda_model_numerics()}};
}

}  // namespace

Backend create_cuda_backend(device::Device&, ThreadPool& pool) {
  return {.model = create_cuda_model_library(),
          .device_optimizer = create_cuda_optimizer(),
          .host_optimizer = create_host_optimizer(pool),
          .numerics = std::make_shared<const Json>(cuda_numerics())};
}

}  // namespace ebb::kernels
