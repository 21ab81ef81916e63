#include "kernels/reference/optimizer_ops.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimizer_checks.h"
#include "kernels/split_master.h"

namespace ebb::kernels {
namespace {

float load(const void* data, DType type, std::int64_t i) {
  return type == DType::f32 ? static_cast<const float*>(data)[i]
                            : to_float(static_cast<const bf16*>(data)[i]);
}

void store(void* data, DType type, std::int64_t i, float value) {
  if (type == DType::f32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<bf16*>(data)[i] = to_bf16(value);
  }
}

float load_master(const StateSpan& span, std::int64_t i) {
  if (span.weight_type == DType::f32) return static_cast<const float*>(span.weight)[i];
  return join_master(static_cast<const bf16*>(span.weight)[i], span.low[i]);
}

void store_master(const StateSpan& span, std::int64_t i, float master) {
  if (span.weight_type == DType::f32) {
    static_cast<float*>(span.weight)[i] = master;
  } else {
    const Halves halves = split_master(master);
    static_cast<bf16*>(span.weight)[i] = halves.high;
    span.low[i] = halves.low;
  }
}

}  // namespace

void ReferenceOptimizerOps::adamw(const StateSpan& span, const AdamWStep& step,
                                  const StepScale* scale) {
  check_span(span);
  if (scale->apply == 0) return;
  for (std::int64_t i = 0; i < span.count; ++i) {
    const float g = load(span.gradient, span.gradient_type, i) * scale->gradient_scale;
    const float m = std::fma(step.beta1, span.first[i], step.one_minus_beta1 * g);
    const float v = std::fma(step.beta2, span.second[i], step.one_minus_beta2 * (g * g));
    const float d = std::fma(std::sqrt(v), step.inverse_root_correction2, step.epsilon);
    const float p = load_master(span, i);
    store_master(span, i, std::fma(-step.step_size, m / d, p * step.decay_factor));
    span.first[i] = m;
    span.second[i] = v;
  }
}

void ReferenceOptimizerOps::add_gradient(float* sum, const void* gradient, DType gradient_type,
                                         std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  for (std::int64_t i = 0; i < count; ++i) sum[i] += load(gradient, gradient_type, i);
}

void ReferenceOptimizerOps::finish_gradient(void* gradient, DType gradient_type, const void* sum,
                                            DType sum_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  check_float_type(sum_type, "the sum");
  for (std::int64_t i = 0; i < count; ++i) {
    store(gradient, gradient_type, i, load(sum, sum_type, i) + load(gradient, gradient_type, i));
  }
}

void ReferenceOptimizerOps::square_sums(double* partials, const void* gradient, DType type,
                                        std::int64_t count) {
  check_float_type(type, "the gradient");
  for (std::int64_t block = 0; block < norm_blocks(count); ++block) {
    const std::int64_t start = block * kNormBlock;
    const std::int64_t length = std::min(kNormBlock, count - start);
    double sums[16] = {};
    for (std::int64_t j = 0; j < length; ++j) {
      const double g = load(gradient, type, start + j);
      sums[j % 16] += g * g;
    }
    for (int width = 8; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) sums[l] += sums[l + width];
    }
    partials[block] = sums[0];
  }
}

}  // namespace ebb::kernels
