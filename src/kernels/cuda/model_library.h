// The model's arithmetic on a CUDA device: cuBLASLt for products, cuDNN for attention where it was
// built in, own kernels for the rest. Pointers, ids, targets, losses and totals are device memory.
#pragma once

#include <memory>

#include "base/json_fwd.h"
#include "kernels/model_library.h"

namespace ebb::kernels {

// Contexts have a stream of the cuda device; calls queue work on it and return. Throws DeviceError
// where the libraries cannot start.
std::unique_ptr<ModelLibrary> create_cuda_model_library();

// Versions and settings that results depend on besides shapes and values, for the numerics key.
Json cuda_model_numerics();

}  // namespace ebb::kernels
