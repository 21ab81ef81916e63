// The specification of the optimizer's arithmetic: one element after the other, in the order that
// kernels/optimizer_ops.h writes down. Everything faster is compared with it bit by bit. It has no
// state: any thread may call it, on memory that no other call touches.
#pragma once

#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

class ReferenceOptimizerOps final : public OptimizerOps {
 public:
  void update_spans(std::span<const SpanUpdate> updates, const StepScale* scale) override;
  void add_gradient(float* sum, const void* gradient, DType gradient_type,
                    std::int64_t count) override;
  void add_two_gradients(float* sum, const void* first, const void* second, DType gradient_type,
                         std::int64_t count) override;
  void finish_gradient(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                       std::int64_t count) override;
  void add_to_planes(const SumPlanes& sum, const bf16* gradient, std::int64_t count) override;
  void finish_planes(const SumPlanes& sum, const bf16* gradient, std::int64_t count) override;
  void square_sums(double* partials, const void* gradient, DType type, std::int64_t count) override;
};

}  // namespace ebb::kernels
