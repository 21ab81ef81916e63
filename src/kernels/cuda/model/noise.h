// Numbers to time products with: zeros would draw less power and run faster than data does.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "ebb/units.h"

namespace ebb::kernels::cuda_model {

// Fills memory with numbers that are about normal with variance 1, as activations are, in bf16 and
// in fp32 alike. It lies on 4 bytes; what is left of less than 4 at the end stays.
void fill_noise(std::byte* data, Bytes bytes, cudaStream_t stream);

}  // namespace ebb::kernels::cuda_model
