#include "kernels/reference/optimizer_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <variant>

#include "kernels/moment_codes.h"
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

// One parameter: its master and its moments, of which rules may keep the first alone.
struct Parameter {
  float p, m, v;
};

void apply(const AdamWStep& s, float g, Parameter& at) {
  at.m = std::fma(s.beta1, at.m, s.one_minus_beta1 * g);
  at.v = std::fma(s.beta2, at.v, s.one_minus_beta2 * (g * g));
  const float d = std::fma(std::sqrt(at.v), s.inverse_root_correction2, s.epsilon);
  at.p = std::fma(-s.step_size, at.m / d, at.p * s.decay_factor);
}

void apply(const AdamStep& s, float g, Parameter& at) {
  const float h = std::fma(s.decay, at.p, g);
  at.m = std::fma(s.beta1, at.m, s.one_minus_beta1 * h);
  at.v = std::fma(s.beta2, at.v, s.one_minus_beta2 * (h * h));
  const float d = std::fma(std::sqrt(at.v), s.inverse_root_correction2, s.epsilon);
  at.p = std::fma(-s.step_size, at.m / d, at.p);
}

void apply(const LionStep& s, float g, Parameter& at) {
  const float u = std::fma(s.beta1, at.m, s.one_minus_beta1 * g);
  const float sign = u > 0 ? 1.0f : u < 0 ? -1.0f : u;
  at.p = std::fma(-s.rate, sign, at.p * s.decay_factor);
  at.m = std::fma(s.beta2, at.m, s.one_minus_beta2 * g);
}

void apply(const SgdStep& s, float g, Parameter& at) {
  const float h = std::fma(s.decay, at.p, g);
  at.m = std::fma(s.momentum, at.m, h);
  at.p = std::fma(-s.rate, s.nesterov ? std::fma(s.momentum, at.m, h) : at.m, at.p);
}

void apply(const AdagradStep& s, float g, Parameter& at) {
  const float h = std::fma(s.decay, at.p, g);
  at.m = std::fma(h, h, at.m);
  at.p = std::fma(-s.rate, h / (std::sqrt(at.m) + s.epsilon), at.p);
}

// One element: reads the master and the gradient, applies the rule, stores the master.
void step_element(const StateSpan& span, const Step& step, float scale, std::int64_t i,
                  Parameter& at) {
  const float g = load(span.gradient, span.gradient_type, i) * scale;
  at.p = load_master(span, i);
  std::visit([&](const auto& numbers) { apply(numbers, g, at); }, step);
  store_master(span, i, at.p);
}

void update_exact(const StateSpan& span, const Step& step, float scale) {
  auto* first = static_cast<float*>(span.first);
  auto* second = static_cast<float*>(span.second);
  for (std::int64_t i = 0; i < span.count; ++i) {
    Parameter at{0, first[i], second != nullptr ? second[i] : 0};
    step_element(span, step, scale, i, at);
    first[i] = at.m;
    if (second != nullptr) second[i] = at.v;
  }
}

void update_bf16(const StateSpan& span, const Step& step, float scale, RoundingKey key) {
  auto* first = static_cast<bf16*>(span.first);
  auto* second = static_cast<bf16*>(span.second);
  for (std::int64_t i = 0; i < span.count; ++i) {
    Parameter at{0, to_float(first[i]), to_float(second[i])};
    step_element(span, step, scale, i, at);
    const ElementDice dice(key, span.first_element + i);
    first[i] = round_at_random(at.m, dice.first(16));
    second[i] = round_at_random(at.v, dice.second(16));
  }
}

// A block is updated as a whole before it is stored: its new scales are those of its new largest.
// Codes of elements behind the span's last are left as they are.
void update_int8(const StateSpan& span, const Step& step, float scale, RoundingKey key) {
  auto* first = static_cast<std::uint8_t*>(span.first);
  auto* second = static_cast<std::uint8_t*>(span.second);
  for (std::int64_t start = 0; start < span.count; start += kStateBlock) {
    const std::int64_t end = std::min(start + kStateBlock, span.count);
    std::uint8_t* scales = span.scales + 2 * (start / kStateBlock);
    Parameter block[kStateBlock];
    std::uint32_t largest_first = 0;
    std::uint32_t largest_second = 0;
    for (std::int64_t i = start; i < end; ++i) {
      Parameter& at = block[i - start];
      at.m = decode_first(first[start + code_index(i - start)], scales[0]);
      at.v = decode_second(second[start + code_index(i - start)], scales[1]);
      step_element(span, step, scale, i, at);
      largest_first = std::max(largest_first, std::bit_cast<std::uint32_t>(std::abs(at.m)));
      largest_second = std::max(largest_second, std::bit_cast<std::uint32_t>(std::abs(at.v)));
    }
    scales[0] = block_scale(kFirstCode, largest_first);
    scales[1] = block_scale(kSecondCode, largest_second);
    for (std::int64_t i = start; i < end; ++i) {
      const Parameter& at = block[i - start];
      const ElementDice dice(key, span.first_element + i);
      const std::int64_t code = start + code_index(i - start);
      first[code] = encode_first(at.m, scales[0], dice.first(kFirstCode.dropped));
      second[code] = encode_second(at.v, scales[1], dice.second(kSecondCode.dropped));
    }
  }
}

void update_span(const StateSpan& span, const Step& step, float gradient_scale) {
  if (span.format == StateFormat::exact) return update_exact(span, step, gradient_scale);
  const RoundingKey key = rounding_key(std::get<AdamWStep>(step).rounding_key, span.tensor_key);
  if (span.format == StateFormat::bf16) {
    update_bf16(span, step, gradient_scale, key);
  } else {
    update_int8(span, step, gradient_scale, key);
  }
}

}  // namespace

void ReferenceOptimizerOps::update_spans(std::span<const SpanUpdate> updates,
                                         const StepScale* scale) {
  check_spans(updates);
  if (scale->apply == 0) return;
  for (const auto& [span, step] : updates) update_span(span, step, scale->gradient_scale);
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
