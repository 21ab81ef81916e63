#pragma once

#include <cuda_runtime.h>

#include "ebb/units.h"

namespace ebb::device {

// A copy by threads of the GPU, which read and write pinned host memory over the link themselves. A
// copy engine serves its queue in order whatever the streams: a few bytes would wait there behind
// gigabytes of states.
void launch_small_copy(void* to, const void* from, Bytes bytes, cudaStream_t stream);

// Whether the device reaches registered host memory under the host's own addresses.
bool can_copy_small(int device);

}  // namespace ebb::device
