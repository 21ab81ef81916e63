// The optimizer's arithmetic on an NVIDIA GPU, queued on the stream of its context. Bit-identical
// to ReferenceOptimizerOps (NaN compares as NaN). All pointers, the scale's too, are the device's
// and have the alignment of their element; 16-byte accesses are used where all planes allow them.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/bound_ops.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

class CudaOptimizerOps final : public OptimizerOps {
 public:
  explicit CudaOptimizerOps(const ExecutionContext& context);

  void update_spans(std::span<const SpanUpdate> updates, const StepScale* scale) override;
  void add_gradient(float* sum, const void* gradient, DType gradient_type,
                    std::int64_t count) override;
  void add_two_gradients(float* sum, const void* first, const void* second, DType gradient_type,
                         std::int64_t count) override;
  void finish_gradient(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                       std::int64_t count) override;
  void square_sums(double* partials, const void* gradient, DType type, std::int64_t count) override;
  void finish_parts(std::span<const GradientPart> parts, DType gradient_type,
                    DType sum_type) override;

 private:
  cudaStream_t stream_;
};

}  // namespace ebb::kernels
