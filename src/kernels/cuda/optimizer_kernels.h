// The launches behind CudaOptimizerOps, which checks their arguments: types are f32 or bf16, counts
// are not zero. Apart from it because nvcc's front end does not take fmt's headers.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

void launch_update(const StateSpan& span, const Step& step, const StepScale* scale,
                   cudaStream_t stream);
// target = round(target + addend).
void launch_add(void* target, DType target_type, const void* addend, DType addend_type,
                std::int64_t count, cudaStream_t stream);
// Any number of parts, also empty ones. The sums of square_sums() are a part without a sum.
void launch_finish(std::span<const GradientPart> parts, DType gradient_type, DType sum_type,
                   cudaStream_t stream);

}  // namespace ebb::kernels
