// What a run computes with: the device, the pool of CPU workers, and the kernels for both.
#pragma once

#include <memory>
#include <string>

#include "base/json_fwd.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/backend.h"
#include "plan/planner.h"

namespace ebb::engine {

class Runtime {
 public:
  // `threads` 0: all that the machine lets us use.
  Runtime(const std::string& device_kind, int threads);

  device::Device& device() { return *device_; }
  ThreadPool& pool() { return pool_; }
  int threads() const { return pool_.slots(); }
  kernels::ModelOps& model_ops() { return *backend_.model; }
  kernels::OptimizerOps& device_optimizer() { return *backend_.device_optimizer; }
  kernels::OptimizerOps& host_optimizer() { return *backend_.host_optimizer; }
  // What plans are made with: rules of thumb, unless something better is given.
  const plan::Profile& profile() const { return profile_; }
  void use_profile(plan::Profile profile) { profile_ = std::move(profile); }
  // What the machine has for each tier.
  plan::Limits limits() const;
  // The part of the numerics key that is the machine's.
  Json numerics() const;

 private:
  ThreadPool pool_;
  std::unique_ptr<device::Device> device_;
  kernels::Backend backend_;
  plan::Profile profile_;
};

}  // namespace ebb::engine
