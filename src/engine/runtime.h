// What a run computes with: the device, the pool of CPU workers, and the kernels for both.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/model_ops.h"
#include "kernels/optimizer_ops.h"
#include "plan/profile.h"

namespace ebb::engine {

class Runtime {
 public:
  // `threads` 0: all that the machine lets us use.
  Runtime(const std::string& device_kind, int threads);

  device::Device& device() { return *device_; }
  ThreadPool& pool() { return pool_; }
  kernels::ModelOps& model_ops() { return *model_ops_; }  // on the compute lane
  kernels::OptimizerOps& device_optimizer() { return *device_optimizer_; }
  kernels::OptimizerOps& host_optimizer() { return *host_optimizer_; }  // on the host lane
  plan::Profile profile() const;
  // The part of the numerics key that is the machine's: what makes bits differ between machines.
  Json numerics() const;

 private:
  ThreadPool pool_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<kernels::ModelOps> model_ops_;
  std::unique_ptr<kernels::OptimizerOps> device_optimizer_;
  std::unique_ptr<kernels::OptimizerOps> host_optimizer_;
};

}  // namespace ebb::engine
