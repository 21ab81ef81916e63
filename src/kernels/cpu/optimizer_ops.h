// The optimizer's arithmetic on the CPU: vectors of whatever width the processor has, chosen at run
// time, over the pool's threads. Bit-identical to ReferenceOptimizerOps (NaN compares as NaN) at
// any width and thread count; a processor without fused multiply-add runs the reference itself.
//
// Pointers need the alignment of their element, no more. Operands of a call are the same memory or
// do not overlap. Calls may come from several lanes at once, on memory that they do not share.
#pragma once

#include "base/thread_pool.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

class CpuOptimizerOps final : public OptimizerOps {
 public:
  // `pool` is borrowed and outlives this.
  explicit CpuOptimizerOps(ThreadPool& pool) : pool_(pool) {}

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
  void finish_parts(std::span<const GradientPart> parts, DType gradient_type,
                    DType sum_type) override;

 private:
  ThreadPool& pool_;
};

}  // namespace ebb::kernels
