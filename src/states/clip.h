// Makes the global gradient norm of sums of squares, and what it decides for the step.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/optimizer_ops.h"
#include "states/chunk_map.h"

namespace ebb::states {

struct GradientNorm {
  double value = 0;
  std::int64_t first_bad_tensor = -1;  // the first whose gradient is not finite
  kernels::StepScale scale;
};

// `partials` has one span a tensor, in tensor order: the tensor's sums of squares, one for each
// norm block (OptimizerOps::square_sums). They are added in fp64, a tensor's in block order and
// then the tensors' in tensor order, so the norm does not depend on chunks, sites or threads.
//
// The clip factor is clip / (norm + 1e-6), at most 1 (as torch's clip_grad_norm_), in double and
// rounded once; a clip of 0 or less means 1. A norm that is not finite gives apply = 0.
//
// Where gradients were made too large by a factor, that is the divisor: the norm is that of what
// they are without it, and the scale takes them there.
GradientNorm global_norm(std::span<const std::span<const double>> partials, double clip,
                         double divisor = 1);

// The same of all sums of squares as the map numbers them.
GradientNorm global_norm(const ChunkMap& map, const double* squares, double clip,
                         double divisor = 1);

}  // namespace ebb::states
