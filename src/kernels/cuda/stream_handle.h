// The driver's queue behind a context's stream.
#pragma once

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_stream.h"
#include "ebb/error.h"
#include "kernels/bound_ops.h"

namespace ebb::kernels {

// Throws Error where there is none: null would be a stream too, the default one, which waits for
// all others.
inline cudaStream_t stream_handle(const ExecutionContext& context) {
  const auto* const own = dynamic_cast<const device::CudaStream*>(context.stream);
  if (own == nullptr) throw Error("kernels: CUDA kernels need a stream of the cuda device");
  return own->handle();
}

}  // namespace ebb::kernels
