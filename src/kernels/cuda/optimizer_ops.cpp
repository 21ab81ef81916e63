#include "kernels/cuda/optimizer_ops.h"

#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/stream_handle.h"
#include "kernels/optimizer_checks.h"

namespace ebb::kernels {

CudaOptimizerOps::CudaOptimizerOps(const ExecutionContext& context)
    : stream_(stream_handle(context)) {}

void CudaOptimizerOps::update_spans(std::span<const SpanUpdate> updates, const StepScale* scale) {
  check_spans(updates);
  launch_update(updates, scale, stream_);
}

void CudaOptimizerOps::add_gradient(float* sum, const void* gradient, DType gradient_type,
                                    std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  if (count > 0) launch_add(sum, DType::f32, gradient, gradient_type, count, stream_);
}

void CudaOptimizerOps::add_two_gradients(float* sum, const void* first, const void* second,
                                         DType gradient_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  if (count > 0) launch_add_two(sum, first, second, gradient_type, count, stream_);
}

void CudaOptimizerOps::finish_gradient(void* gradient, DType gradient_type, const void* sum,
                                       DType sum_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  check_float_type(sum_type, "the sum");
  if (count > 0) launch_add(gradient, gradient_type, sum, sum_type, count, stream_);
}

void CudaOptimizerOps::square_sums(double* partials, const void* gradient, DType type,
                                   std::int64_t count) {
  // (What is only read here is written where a part has a sum.)
  const GradientPart part{const_cast<void*>(gradient), nullptr, partials, count};
  finish_parts({&part, 1}, type, type);
}

void CudaOptimizerOps::finish_parts(std::span<const GradientPart> parts, DType gradient_type,
                                    DType sum_type) {
  check_float_type(gradient_type, "the gradient");
  check_float_type(sum_type, "the sum");
  launch_finish(parts, gradient_type, sum_type, stream_);
}

}  // namespace ebb::kernels
