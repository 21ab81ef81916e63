// What the tests of the update share: parameters with all their planes, their numbers of a step,
// and the first difference between two states.
#pragma once

#include <fmt/format.h>

#include "kernels/optimizer_ops.h"
#include "kernels/split_master.h"
#include "optimizer_cases.h"

namespace ebb::kernels::optimizer_cases {

struct Shape {
  DType weight_type = DType::bf16;
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;
  std::int64_t offset = 0;  // elements before the first, to misalign
};

// The state of `count` parameters, with guards around every plane.
struct State {
  State(const Shape& shape, std::uint64_t seed)
      : shape(shape),
        weight(shape.weight_type, shape.count, shape.offset),
        low(DType::bf16, shape.count, shape.offset),
        first(DType::f32, shape.count, shape.offset),
        second(DType::f32, shape.count, shape.offset) {
    weight.fill(seed, 1, 1.0);
    low.fill(seed, 2, 1.0);  // any 16 bits are a low half
    first.fill(seed, 3, 1e-2);
    second.fill(seed, 4, 1e-4);
    // Second moments are squares: most of them not negative, so that most roots exist.
    for (std::int64_t i = 0; i < shape.count; ++i) {
      float& v = second.as<float>()[i];
      if (i % 8 != 0) v = std::abs(v);
    }
  }

  StateSpan span(Array& gradient) {
    StateSpan result;
    result.weight = weight.data();
    result.weight_type = shape.weight_type;
    if (shape.weight_type == DType::bf16) result.low = low.as<std::int16_t>();
    result.first = first.as<float>();
    result.second = second.as<float>();
    result.gradient = gradient.data();
    result.gradient_type = gradient.type();
    result.count = shape.count;
    return result;
  }

  float master(std::int64_t i) const {
    if (shape.weight_type == DType::f32) return weight.at(i);
    const auto bits = std::bit_cast<std::uint32_t>(low.at(i)) >> 16;
    return join_master(to_bf16_bits(weight.at(i)), static_cast<std::int16_t>(bits));
  }

  static bf16 to_bf16_bits(float value) {
    return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16)};
  }

  Shape shape;
  Array weight, low, first, second;
};

// "" or the first difference, guards included.
inline std::string difference(const State& expected, const State& found) {
  for (std::int64_t i = 0; i < expected.weight.whole(); ++i) {
    const auto differ = [&](const char* plane, float a, float b) {
      return fmt::format("{}[{}]: expected {} ({:08x}), found {} ({:08x})", plane,
                         i - expected.shape.offset, a, std::bit_cast<std::uint32_t>(a), b,
                         std::bit_cast<std::uint32_t>(b));
    };
    if (!same_number(expected.master(i), found.master(i))) {
      return differ("master", expected.master(i), found.master(i));
    }
    if (!same_number(expected.first.at(i), found.first.at(i))) {
      return differ("first", expected.first.at(i), found.first.at(i));
    }
    if (!same_number(expected.second.at(i), found.second.at(i))) {
      return differ("second", expected.second.at(i), found.second.at(i));
    }
  }
  return "";
}

inline AdamWStep numbers(int step) {
  AdamWStep result;
  result.beta2 = 0.95f;
  result.one_minus_beta2 = 0.05f;
  result.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(0.95, step)));
  result.step_size = static_cast<float>(1e-2 / (1 - std::pow(0.9, step)));
  result.decay_factor = step % 2 == 0 ? 1.0f : 0.9975f;
  return result;
}

}  // namespace ebb::kernels::optimizer_cases
