// The model's arithmetic on an NVIDIA GPU.
#pragma once

#include <memory>

#include "kernels/model_ops.h"

namespace ebb::kernels {

// Wants bind_stream() with a CudaStream, and bind_scratch(), before its first call.
std::unique_ptr<ModelOps> create_cuda_model_ops();

}  // namespace ebb::kernels
