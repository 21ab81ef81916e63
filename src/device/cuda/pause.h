#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ebb::device {

// Keeps one thread of the GPU waiting, so that what is queued behind it is late.
void launch_pause(std::int64_t microseconds, cudaStream_t stream);

}  // namespace ebb::device
