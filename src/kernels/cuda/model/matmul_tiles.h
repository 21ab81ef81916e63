// Products of any shape, stride and alignment: for what cuBLASLt refuses. Slow beside it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/model_ops.h"

namespace ebb::kernels::cuda_model {

void matmul_tiles(View c, ConstView a, ConstView b, const MatmulOptions& options,
                  cudaStream_t stream);

}  // namespace ebb::kernels::cuda_model
