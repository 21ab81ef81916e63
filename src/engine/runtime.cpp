#include "engine/runtime.h"

#include "base/json.h"
#include "base/machine.h"
#include "base/process_memory.h"
#include "device/cuda_support.h"
#include "kernels/gemm_tuner.h"

namespace ebb::engine {

plan::Limits limits_within(const MachineMemory& machine, const std::optional<Bytes>& device,
                           const std::optional<Bytes>& host) {
  // What is left of one memory; a limit beyond all there is leaves the usual share.
  const auto other = [&](const std::optional<Bytes>& given, Bytes usual) {
    const Bytes all = machine.device + machine.host;
    return machine.shared && given && *given <= all ? all - *given : usual;
  };
  return {{plan::Tier::device, device.value_or(other(host, machine.device))},
          {plan::Tier::host, host.value_or(other(device, machine.host))}};
}

Runtime::Runtime(const std::string& device_kind, int threads)
    : pool_(threads > 0 ? threads : usable_cpus()),
      device_(device::create_device(device_kind)),
      backend_(kernels::create_backend(*device_, pool_)),
      profile_(device_->kind() == "cpu" ? plan::rough_cpu_profile(pool_.slots())
                                        : plan::rough_gpu_profile(pool_.slots())) {
  profile_.device_memory = device_->device_memory();
  profile_.host_memory = device_->host_memory();
  // Behind device and libraries: what they took is not the run's.
  at_start_ = {.resident = process_memory().resident(), .free_device = free_device_memory()};
}

Runtime::Runtime(DeviceKind device, int threads) : Runtime(std::string(to_word(device)), threads) {}

kernels::ModelLibrary& Runtime::cpu_model() {
  std::call_once(cpu_model_made_, [this] { cpu_model_ = kernels::create_cpu_model(pool_); });
  return *cpu_model_;
}

MachineMemory Runtime::memory() const {
  return {.device = device_->device_memory(),
          .host = device_->host_memory(),
          .shared = device_->kind() == "cpu"};
}

std::optional<Bytes> Runtime::free_device_memory() const {
  if (device_->kind() != "cuda") return std::nullopt;
  return device::describe_cuda().free_memory;
}

Json Runtime::numerics() const {
  Json numerics = {{"device", device_->kind()}, {"kernels", *backend_.numerics}};
  if (kernels::GemmTuner* const search = backend_.model->product_search()) {
    numerics["products"] = {{"conditions", search->conditions()}, {"choices", search->choices()}};
  }
  return numerics;
}

}  // namespace ebb::engine
