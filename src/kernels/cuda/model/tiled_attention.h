// Attention by own kernels: any shape, stride, alignment and element type, head dimensions up to
// 256, sums and products in fp32, bits that depend on shape and values alone.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/model_ops.h"

namespace ebb::kernels::cuda_model {

struct AttentionInputs {
  ConstView q, k, v;
  AttentionShape shape;
};

void tiled_attention(View out, float* log_sums, const AttentionInputs& inputs, cudaStream_t stream);

struct AttentionGradients {
  View dq, dk, dv;
  ConstView dout, out;
  const float* log_sums;
  float* deltas;  // scratch: batch x heads x queries
};

void tiled_attention_backward(const AttentionGradients& gradients, const AttentionInputs& inputs,
                              cudaStream_t stream);

}  // namespace ebb::kernels::cuda_model
