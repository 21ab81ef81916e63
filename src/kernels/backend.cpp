#include "kernels/backend.h"

#include "base/json.h"
#include "kernels/cpu/cpu_model_library.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cuda/backend.h"

namespace ebb::kernels {

Backend create_backend(device::Device& device, ThreadPool& pool) {
  use_isa_of_environment();
  if (device.kind() == "cuda") return create_cuda_backend(device, pool);
  return {.model = create_cpu_model(pool),
          .device_optimizer = create_device_optimizer(device, pool),
          .host_optimizer = create_host_optimizer(pool),
          .numerics = std::make_shared<const Json>(cpu_numerics())};
}

std::unique_ptr<ModelLibrary> create_cpu_model(ThreadPool& pool) {
  return std::make_unique<CpuModelLibrary>(pool);
}

}  // namespace ebb::kernels
