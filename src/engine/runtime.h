// What a run computes with: the device, the pool of CPU workers, and the kernels for both.
//
// The cores are divided here and nowhere else. There is one pool, and all arithmetic of the CPU
// (model ops, updates, sums) takes its threads from it: alone it has all of them, and lanes that
// compute at once share them call by call.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "ebb/types.h"
#include "kernels/backend.h"
#include "plan/planner.h"

namespace ebb::engine {

// What a machine has for its tiers where the user says nothing. On the cpu device both are one
// memory: what one is given beyond this, the other loses.
struct MachineMemory {
  Bytes device = 0;
  Bytes host = 0;
  bool shared = false;
};

// What a run may take: what the user set, else what the machine has. Of one memory, a limit that is
// set for one tier leaves the other the rest; a limit beyond all that there is overrules it, and
// leaves the other what it would have had.
plan::Limits limits_within(const MachineMemory& machine, const std::optional<Bytes>& device,
                           const std::optional<Bytes>& host);

class Runtime {
 public:
  // `threads` 0: all that the machine lets us use.
  Runtime(const std::string& device_kind, int threads);
  Runtime(DeviceKind device, int threads);

  device::Device& device() { return *device_; }
  ThreadPool& pool() { return pool_; }
  int threads() const { return pool_.slots(); }
  // What tasks make their ops from. Those of a model are for one lane each: the device's for the
  // compute lane, the CPU's for the host lane, also where the device is the CPU.
  kernels::ModelLibrary& device_model() { return *backend_.model; }
  kernels::OptimizerLibrary& device_optimizer() { return *backend_.device_optimizer; }
  kernels::OptimizerLibrary& host_optimizer() { return *backend_.host_optimizer; }
  // Made at the first call, so that it costs nothing where the CPU computes no blocks: plans ask
  // before a step does.
  kernels::ModelLibrary& cpu_model();
  // What plans are made with: rules of thumb, unless something better is given.
  const plan::Profile& profile() const { return profile_; }
  void use_profile(plan::Profile profile) { profile_ = std::move(profile); }
  // Memory that the machine has left for each tier.
  MachineMemory memory() const;
  // The process's and the device's memory when this was made, before any run took some.
  struct AtStart {
    Bytes resident = 0;
    std::optional<Bytes> free_device{};
  };
  const AtStart& at_start() const { return at_start_; }
  // What the driver has free on a GPU now, for all programs; nothing on the cpu device.
  std::optional<Bytes> free_device_memory() const;
  // The part of the numerics key that is the machine's.
  Json numerics() const;

 private:
  ThreadPool pool_;
  std::unique_ptr<device::Device> device_;
  kernels::Backend backend_;
  std::once_flag cpu_model_made_;
  std::unique_ptr<kernels::ModelLibrary> cpu_model_;
  plan::Profile profile_;
  AtStart at_start_;
};

}  // namespace ebb::engine
