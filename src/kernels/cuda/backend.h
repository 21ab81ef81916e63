// The kernels of a CUDA device. cuda/ defines it, or no_cuda/, which throws ConfigError.
#pragma once

#include "kernels/backend.h"

namespace ebb::kernels {

// Device and pool outlive the backend.
Backend create_cuda_backend(device::Device& device, ThreadPool& pool);

}  // namespace ebb::kernels
