// The second pass of sums over rows: partial sums, one row a block of the first pass, are added in
// a fixed order and rounded once.
#pragma once

#include <cuda_runtime_api.h>

#include "base/dtype.h"

namespace ebb::kernels::cuda_model {

// out[j] = sum over i of partials[i][j]; `type` is out's.
void add_partials(void* out, DType type, const float* partials, std::int64_t rows,
                  std::int64_t cols, cudaStream_t stream);

}  // namespace ebb::kernels::cuda_model
