#include "kernels/backend.h"

#include "base/json.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/optimizer_ops.h"
#include "kernels/cuda/backend.h"

namespace ebb::kernels {

Backend create_backend(device::Device& device, ThreadPool& pool) {
  use_isa_of_environment();
  if (device.kind() == "cuda") return create_cuda_backend(device, pool);
  return {.model = std::make_unique<CpuOps>(pool),
          .device_optimizer = std::make_unique<CpuOptimizerOps>(pool),
          .host_optimizer = std::make_unique<CpuOptimizerOps>(pool),
          .numerics = std::make_shared<const Json>(cpu_numerics())};
}

}  // namespace ebb::kernels
