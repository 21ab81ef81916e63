// The launches behind CudaOptimizerOps, which checks their arguments: types are f32 or bf16. Apart
// from it because nvcc's front end does not take fmt's headers.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

// Any number of spans, also empty ones: neighbours of the same types, format and rule share a
// launch.
void launch_update(std::span<const SpanUpdate> updates, const StepScale* scale,
                   cudaStream_t stream);
// target = round(target + addend), of one element or more.
void launch_add(void* target, DType target_type, const void* addend, DType addend_type,
                std::int64_t count, cudaStream_t stream);
// sum = (0 + first) + second, of one element or more.
void launch_add_two(float* sum, const void* first, const void* second, DType type,
                    std::int64_t count, cudaStream_t stream);
// Any number of parts, also empty ones. The sums of square_sums() are a part without a sum.
void launch_finish(std::span<const GradientPart> parts, DType gradient_type, DType sum_type,
                   cudaStream_t stream);

}  // namespace ebb::kernels
