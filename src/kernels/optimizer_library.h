// What optimizer ops are made from, without what a model needs: what links this needs no library of
// matrix products.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/bound_ops.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

// Keeps nothing between calls, so its ops may run on several lanes at once, on memory that they do
// not share. They want no scratch.
class OptimizerLibrary {
 public:
  virtual ~OptimizerLibrary() = default;
  // Throws Error where the context's stream is none of the library's device.
  virtual Bound<OptimizerOps> ops(const ExecutionContext& context) = 0;
};

// Device and pool outlive them. The host's needs no stream.
std::unique_ptr<OptimizerLibrary> create_device_optimizer(device::Device& device, ThreadPool& pool);
std::unique_ptr<OptimizerLibrary> create_host_optimizer(ThreadPool& pool);

// cuda/ defines it, or no_cuda/, which throws ConfigError.
std::unique_ptr<OptimizerLibrary> create_cuda_optimizer();

}  // namespace ebb::kernels
