#include "engine/runtime.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/optimizer_ops.h"

namespace ebb::engine {

Runtime::Runtime(const std::string& device_kind, int threads)
    : pool_(threads > 0 ? threads : usable_cpus()),
      device_(device::create_device(device_kind)),
      model_ops_(std::make_unique<kernels::CpuOps>(pool_)),
      device_optimizer_(std::make_unique<kernels::CpuOptimizerOps>(pool_)),
      host_optimizer_(std::make_unique<kernels::CpuOptimizerOps>(pool_)) {}

plan::Profile Runtime::profile() const { return plan::rough_cpu_profile(pool_.slots()); }

Json Runtime::numerics() const {
  return {{"device", device_->kind()}, {"kernels", kernels::cpu_numerics()}};
}

}  // namespace ebb::engine
