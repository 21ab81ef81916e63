// The kernels that fit a device.
#pragma once

#include <memory>

#include "base/json_fwd.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/model_ops.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

struct Backend {
  std::unique_ptr<ModelOps> model;                 // on the compute lane
  std::unique_ptr<OptimizerOps> device_optimizer;  // on the compute lane
  std::unique_ptr<OptimizerOps> host_optimizer;    // on the host lane
  // What results depend on besides shapes and values, for the numerics key.
  std::shared_ptr<const Json> numerics;
};

// Device and pool outlive the backend.
Backend create_backend(device::Device& device, ThreadPool& pool);

}  // namespace ebb::kernels
