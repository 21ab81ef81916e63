#include "engine/runtime.h"

#include "base/json.h"
#include "base/machine.h"
#include "kernels/product_search.h"

namespace ebb::engine {

Runtime::Runtime(const std::string& device_kind, int threads)
    : pool_(threads > 0 ? threads : usable_cpus()),
      device_(device::create_device(device_kind)),
      backend_(kernels::create_backend(*device_, pool_)),
      profile_(device_->kind() == "cpu" ? plan::rough_cpu_profile(pool_.slots())
                                        : plan::rough_gpu_profile(pool_.slots())) {
  profile_.device_memory = device_->device_memory();
  profile_.host_memory = device_->host_memory();
}

plan::Limits Runtime::limits() const {
  return {.device = device_->device_memory(), .host = device_->host_memory()};
}

Json Runtime::numerics() const {
  Json numerics = {{"device", device_->kind()}, {"kernels", *backend_.numerics}};
  if (kernels::ProductSearch* const search = backend_.model->product_search()) {
    numerics["products"] = {{"conditions", search->conditions()}, {"choices", search->choices()}};
  }
  return numerics;
}

}  // namespace ebb::engine
