// The optimizer's kernels that fit a device, without those of a model: what links this needs no
// library of matrix products.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

// Device and pool outlive them.
std::unique_ptr<OptimizerOps> create_device_optimizer(device::Device& device, ThreadPool& pool);
std::unique_ptr<OptimizerOps> create_host_optimizer(ThreadPool& pool);

// cuda/ defines it, or no_cuda/, which throws ConfigError.
std::unique_ptr<OptimizerOps> create_cuda_optimizer();

}  // namespace ebb::kernels
