// What an update is made of: the rules, each as the numbers of one of its steps, the formats of the
// moments, and a run of parameters with its planes. OptimizerOps::update is what computes.
//
// All rules read g = gradient * gradient_factor(step, gradient_scale) and the master p. Every
// operation is IEEE fp32 in the written order; fma rounds once. The steps' numbers are made in
// double and rounded once. What can be made once for a step is, so that an element takes few
// operations: the factor of AdamW's gradients takes in 1 - beta1, and its divisor the step's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/dtype.h"

namespace ebb::kernels {

//   m = fma(beta1, m, g)
//   v = fma(beta2, v, square_factor * (g * g))
//   d = fma(sqrt(v), root_factor, epsilon)
//   p = fma(p, decay_factor, -(m / d))
// with step_size = learning rate / (1 - beta1^t). The int8 format has m as a number of its block's
// steps, and beta1 * step for beta1.
struct AdamWStep {
  float beta1 = 0.9f;
  float one_minus_beta1 = 0.1f;
  float beta2 = 0.999f;
  float square_factor = 0.1f;      // (1 - beta2) / (1 - beta1)^2
  float root_factor = 1e3f;        // 1 / sqrt(1 - beta2^t) / step_size
  float epsilon = 1e-5f;           // the rule's / step_size; infinite where nothing moves
  float decay_factor = 1.0f;       // 1 - learning rate * weight decay; 1 where nothing decays
  bool drops_denormals = false;    // below
  std::uint64_t rounding_key = 0;  // of the run's seed and the step; the exact format needs none
};

// Adam with the decay in the gradient: h = one_minus_beta1 * fma(decay, p, g), then as AdamW with h
// for g and
//   p = p - m / d
struct AdamStep {
  float beta1 = 0.9f;
  float one_minus_beta1 = 0.1f;
  float beta2 = 0.999f;
  float square_factor = 0.1f;
  float root_factor = 1e3f;
  float epsilon = 1e-5f;
  float decay = 0.0f;
  bool drops_denormals = false;
};

//   u = fma(beta1, m, one_minus_beta1 * g)
//   p = fma(-rate, sign(u), p * decay_factor)     sign(0) is 0, sign(NaN) is NaN
//   m = fma(beta2, m, one_minus_beta2 * g)
struct LionStep {
  float beta1 = 0.9f;
  float one_minus_beta1 = 0.1f;
  float beta2 = 0.99f;
  float one_minus_beta2 = 0.01f;
  float rate = 1e-4f;
  float decay_factor = 1.0f;
  bool drops_denormals = false;
};

//   h = fma(decay, p, g)
//   m = fma(momentum, m, h)
//   p = fma(-rate, nesterov ? fma(momentum, m, h) : m, p)
struct SgdStep {
  float momentum = 0.9f;
  float rate = 1e-2f;
  float decay = 0.0f;
  bool nesterov = false;
  bool drops_denormals = false;
};

//   h = fma(decay, p, g)
//   m = fma(h, h, m)
//   p = fma(-rate, h / (sqrt(m) + epsilon), p)
struct AdagradStep {
  float rate = 1e-2f;
  float epsilon = 1e-10f;
  float decay = 0.0f;
  bool drops_denormals = false;
};

using Step = std::variant<AdamWStep, AdamStep, LionStep, SgdStep, AdagradStep>;

template <class S>
constexpr float gradient_factor(const S& step, float gradient_scale) {
  if constexpr (std::is_same_v<S, AdamWStep>) {
    return step.one_minus_beta1 * gradient_scale;
  } else {
    return gradient_scale;
  }
}

// How many moments a rule keeps: the first plane, or both.
template <class>
inline constexpr int kMoments = 1;
template <>
inline constexpr int kMoments<AdamWStep> = 2;
template <>
inline constexpr int kMoments<AdamStep> = 2;

inline bool drops_denormals(const Step& step) {
  return std::visit([](const auto& numbers) { return numbers.drops_denormals; }, step);
}

inline int moments_of(const Step& step) {
  return std::visit([]<class S>(const S&) { return kMoments<S>; }, step);
}

// exact: fp32 moments, for every rule. Steps that drop denormals store zeros for those moments of
// exact and bf16 that have become denormals (without_denormals()). bf16 and int8 are for AdamW
// alone: moments are widened, updated in fp32 and rounded at random, up or down, so that their mean
// is what exact would keep (moment_codes.h has the codes and the random numbers).
enum class StateFormat : std::uint8_t { exact, bf16, int8 };

constexpr std::string_view name_of(StateFormat format) {
  switch (format) {
    case StateFormat::exact: return "exact";
    case StateFormat::bf16: return "bf16";
    case StateFormat::int8: return "int8";
  }
  return "?";
}

// What files call it: a format whose codes change gets another name, so that none is read as what
// it is not. ("int8" was a code whose first moments were small floats.)
constexpr std::string_view stored_name_of(StateFormat format) {
  return format == StateFormat::int8 ? "int8-steps" : name_of(format);
}

// int8: so many elements of one tensor, counted from its start, share a scale; never those of a
// chunk. Cuts between the norm's blocks cut none of these.
inline constexpr std::int64_t kStateBlock = 128;

constexpr std::int64_t state_blocks(std::int64_t count) {
  return (count + kStateBlock - 1) / kStateBlock;
}

// Bytes of one element of a moment.
constexpr std::int64_t moment_bytes(StateFormat format) {
  return format == StateFormat::exact ? 4 : format == StateFormat::bf16 ? 2 : 1;
}
// Bytes of a moment's plane: int8 has whole blocks.
constexpr std::int64_t moment_plane_bytes(StateFormat format, std::int64_t count) {
  return format == StateFormat::int8 ? state_blocks(count) * kStateBlock
                                     : moment_bytes(format) * count;
}

// `count` parameters of one tensor in a row, with all their planes. With bf16 weights the master is
// split: weight is the high half (rounded half up), low the signed 16-bit rest. With f32 weights,
// low is null.
struct StateSpan {
  void* weight = nullptr;
  DType weight_type = DType::bf16;
  std::int16_t* low = nullptr;
  StateFormat format = StateFormat::exact;
  void* first = nullptr;           // exact: float, bf16: bf16, int8: bytes of whole blocks
  void* second = nullptr;          // as first; null where the rule keeps one moment
  std::uint8_t* scales = nullptr;  // int8 only: of each block the first moment's, then the second's
  const void* gradient = nullptr;
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;
  // Which elements these are, for random numbers and blocks: the tensor's own key and the index of
  // the first of them in it. In the compact formats that is a block's first.
  std::uint64_t tensor_key = 0;
  std::int64_t first_element = 0;
};

// `count` of the span's parameters, from `start` on; in the compact formats a block starts there.
inline StateSpan part_of(const StateSpan& span, std::int64_t start, std::int64_t count) {
  const auto move = [&](auto*& plane, std::int64_t bytes) {
    using Plane = std::remove_reference_t<decltype(plane)>;
    using Byte = std::conditional_t<std::is_same_v<Plane, const void*>, const std::byte, std::byte>;
    if (plane != nullptr) {
      plane = reinterpret_cast<Plane>(reinterpret_cast<Byte*>(plane) + bytes);
    }
  };
  StateSpan part = span;
  move(part.weight, start * size_of(span.weight_type));
  move(part.low, start * 2);
  move(part.first, start * moment_bytes(span.format));
  move(part.second, start * moment_bytes(span.format));
  move(part.scales, start / kStateBlock * 2);
  move(part.gradient, start * size_of(span.gradient_type));
  part.count = count;
  part.first_element += start;
  return part;
}

}  // namespace ebb::kernels
