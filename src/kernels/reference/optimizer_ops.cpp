// The specification of the optimizer: one element after the other, in the order of operations that
// every implementation keeps to the bit.
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

// The sum so far: that of the first two gradients, which lie in the planes as they came, or the
// fp32 number whose halves they are. 0 first, so that -0 + -0 is what a sum that starts with 0
// gives.
float sum_in(const SumPlanes& sum, std::int64_t i) {
  if (sum.two_gradients) return (0.0f + to_float(bf16{sum.high[i]})) + to_float(bf16{sum.low[i]});
  return std::bit_cast<float>(static_cast<std::uint32_t>(sum.high[i]) << 16 | sum.low[i]);
}

// The fp32 master, from the weight alone or from weight and low half.
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
  at.m = std::fma(s.beta1, at.m, g);
  at.v = std::fma(s.beta2, at.v, s.square_factor * (g * g));
  const float d = std::fma(std::sqrt(at.v), s.root_factor, s.epsilon);
  at.p = std::fma(at.p, s.decay_factor, -(at.m / d));
}

void apply(const AdamStep& s, float g, Parameter& at) {
  const float h = s.one_minus_beta1 * std::fma(s.decay, at.p, g);
  at.m = std::fma(s.beta1, at.m, h);
  at.v = std::fma(s.beta2, at.v, s.square_factor * (h * h));
  const float d = std::fma(std::sqrt(at.v), s.root_factor, s.epsilon);
  at.p = at.p - at.m / d;
}

void apply(const LionStep& s, float g, Parameter& at) {
  const float u = std::fma(s.beta1, at.m, s.one_minus_beta1 * g);
  // A NaN stays one: it must not become a step of plus or minus one.
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
  const float gradient = load(span.gradient, span.gradient_type, i);
  at.p = load_master(span, i);
  std::visit(
      [&](const auto& numbers) { apply(numbers, gradient * gradient_factor(numbers, scale), at); },
      step);
  store_master(span, i, at.p);
}

template <class Stored>
Stored kept(Stored moment, bool drops_denormals) {
  return drops_denormals ? without_denormals(moment) : moment;
}

void update_exact(const StateSpan& span, const Step& step, float scale) {
  const bool drops = drops_denormals(step);
  auto* first = static_cast<float*>(span.first);
  auto* second = static_cast<float*>(span.second);
  for (std::int64_t i = 0; i < span.count; ++i) {
    Parameter at{0, first[i], second != nullptr ? second[i] : 0};
    step_element(span, step, scale, i, at);
    first[i] = kept(at.m, drops);
    if (second != nullptr) second[i] = kept(at.v, drops);
  }
}

// Random bits are those of the element's place in its tensor, whatever span it is updated in.
void update_bf16(const StateSpan& span, const Step& step, float scale, RoundingKey key) {
  const bool drops = drops_denormals(step);
  auto* first = static_cast<bf16*>(span.first);
  auto* second = static_cast<bf16*>(span.second);
  for (std::int64_t i = 0; i < span.count; ++i) {
    Parameter at{0, to_float(first[i]), to_float(second[i])};
    step_element(span, step, scale, i, at);
    const ElementDice dice(key, span.first_element + i);
    first[i] = kept(round_at_random(at.m, dice.first(16)), drops);
    second[i] = kept(round_at_random(at.v, dice.second(16)), drops);
  }
}

// The largest moments a block can get: those of its largest moments and its largest gradient.
// Scales are so known before any element is updated, and one pass over the block is enough.
Parameter largest_after(const StateSpan& span, const AdamWStep& in_steps, float gradient_scale,
                        std::int64_t start, std::int64_t end) {
  const auto* first = static_cast<const std::uint8_t*>(span.first);
  const auto* second = static_cast<const std::uint8_t*>(span.second);
  float most_first = 0;
  std::uint8_t most_second = 0;
  std::uint32_t most_gradient = 0;  // bits: a NaN is larger than all numbers
  for (std::int64_t i = start; i < end; ++i) {
    const float gradient = std::abs(load(span.gradient, span.gradient_type, i));
    most_gradient = std::max(most_gradient, std::bit_cast<std::uint32_t>(gradient));
    most_first =
        std::max(most_first, std::abs(first_in_steps(first[start + code_index(i - start)])));
    most_second = std::max(most_second, second[start + code_index(i - start)]);
  }
  const std::uint8_t scale = span.scales[2 * (start / kStateBlock) + 1];
  Parameter at{0, most_first, decode_second(most_second, scale)};
  apply(in_steps, std::bit_cast<float>(most_gradient) * gradient_factor(in_steps, gradient_scale),
        at);
  return at;
}

// Codes of elements behind the span's last are left as they are.
void update_int8(const StateSpan& span, const AdamWStep& step, float scale, RoundingKey key) {
  auto* first = static_cast<std::uint8_t*>(span.first);
  auto* second = static_cast<std::uint8_t*>(span.second);
  for (std::int64_t start = 0; start < span.count; start += kStateBlock) {
    const std::int64_t end = std::min(start + kStateBlock, span.count);
    std::uint8_t* scales = span.scales + 2 * (start / kStateBlock);
    AdamWStep in_steps = step;
    // First moments are computed with in steps of their old scale: the factor that turns them back
    // is part of beta1.
    in_steps.beta1 *= first_step(scales[0]);
    const Parameter largest = largest_after(span, in_steps, scale, start, end);
    const std::uint8_t first_to = first_scale(largest.m);
    const std::uint8_t second_to = second_scale(largest.v);
    const BlockDice dice(key, (span.first_element + start) / kStateBlock);
    for (std::int64_t i = start; i < end; ++i) {
      std::uint8_t& first_code = first[start + code_index(i - start)];
      std::uint8_t& second_code = second[start + code_index(i - start)];
      Parameter at{0, first_in_steps(first_code), decode_second(second_code, scales[1])};
      step_element(span, in_steps, scale, i, at);
      first_code = encode_first(at.m, first_to, dice.first(i - start));
      second_code = encode_second(at.v, second_to, dice.second(i - start));
    }
    scales[0] = first_to;
    scales[1] = second_to;
  }
}

void update_span(const StateSpan& span, const Step& step, float gradient_scale) {
  if (span.format == StateFormat::exact) return update_exact(span, step, gradient_scale);
  const RoundingKey key = rounding_key(std::get<AdamWStep>(step).rounding_key, span.tensor_key);
  if (span.format == StateFormat::bf16) {
    update_bf16(span, step, gradient_scale, key);
  } else {
    update_int8(span, std::get<AdamWStep>(step), gradient_scale, key);
  }
}

}  // namespace

void ReferenceOptimizerOps::update_spans(std::span<const SpanUpdate> updates,
                                         const StepScale* scale) {
  check_spans(updates);
  // The norm was not finite: nothing is touched.
  if (scale->apply == 0) return;
  for (const auto& [span, step] : updates) update_span(span, step, scale->gradient_scale);
}

void ReferenceOptimizerOps::add_gradient(float* sum, const void* gradient, DType gradient_type,
                                         std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  for (std::int64_t i = 0; i < count; ++i) sum[i] += load(gradient, gradient_type, i);
}

void ReferenceOptimizerOps::add_two_gradients(float* sum, const void* first, const void* second,
                                              DType gradient_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  for (std::int64_t i = 0; i < count; ++i) {
    sum[i] = (0.0f + load(first, gradient_type, i)) + load(second, gradient_type, i);
  }
}

void ReferenceOptimizerOps::finish_gradient(void* gradient, DType gradient_type, const void* sum,
                                            DType sum_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  check_float_type(sum_type, "the sum");
  for (std::int64_t i = 0; i < count; ++i) {
    store(gradient, gradient_type, i, load(sum, sum_type, i) + load(gradient, gradient_type, i));
  }
}

void ReferenceOptimizerOps::add_to_planes(const SumPlanes& sum, const bf16* gradient,
                                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(sum_in(sum, i) + to_float(gradient[i]));
    sum.high[i] = static_cast<std::uint16_t>(bits >> 16);
    sum.low[i] = static_cast<std::uint16_t>(bits);
  }
}

void ReferenceOptimizerOps::finish_planes(const SumPlanes& sum, const bf16* gradient,
                                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    sum.high[i] = to_bf16(sum_in(sum, i) + to_float(gradient[i])).bits;
  }
}

void ReferenceOptimizerOps::square_sums(double* partials, const void* gradient, DType type,
                                        std::int64_t count) {
  check_float_type(type, "the gradient");
  for (std::int64_t block = 0; block < norm_blocks(count); ++block) {
    const std::int64_t start = block * kNormBlock;
    const std::int64_t length = std::min(kNormBlock, count - start);
    // Sixteen sums side by side, joined as a tree: an order that vectors of any width up to sixteen
    // can keep.
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
