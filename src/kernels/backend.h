// The kernels that fit a device.
#pragma once

#include <memory>

#include "base/json_fwd.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/model_library.h"
#include "kernels/optimizer_library.h"

namespace ebb::kernels {

struct Backend {
  std::unique_ptr<ModelLibrary> model;                 // for the compute lane
  std::unique_ptr<OptimizerLibrary> device_optimizer;  // for the compute lane
  std::unique_ptr<OptimizerLibrary> host_optimizer;    // for the host lane
  // Versions and settings that results depend on besides shapes and values, for the numerics key.
  std::shared_ptr<const Json> numerics;
};

// Device and pool outlive the backend.
Backend create_backend(device::Device& device, ThreadPool& pool);

// The model's arithmetic by the CPU, beside any device, with the instruction set that
// create_backend() has chosen. The pool outlives it.
std::unique_ptr<ModelLibrary> create_cpu_model(ThreadPool& pool);

}  // namespace ebb::kernels
