// What the tests of the update share: the rules and formats, parameters with all their planes, and
// the first difference between two states.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/optimizer_ops.h"
#include "kernels/split_master.h"
#include "optimizer_cases.h"
#include "print.h"

namespace ebb::kernels::optimizer_cases {

// A rule with the numbers of its steps, and a format.
struct Kind {
  const char* name;
  StateFormat format;
  Step (*numbers)(int step);

  int moments() const { return moments_of(numbers(1)); }
};

inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

template <class S>
S adam_numbers(int step) {
  S result;
  result.beta2 = 0.95f;
  result.square_factor = 5.0f;
  const double step_size = 1e-2 / (1 - std::pow(0.9, step));
  result.root_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(0.95, step)) / step_size);
  result.epsilon = static_cast<float>(1e-8 / step_size);
  result.drops_denormals = step % 3 == 1;
  return result;
}

inline Step adamw_numbers(int step) {
  auto result = adam_numbers<AdamWStep>(step);
  result.decay_factor = step % 2 == 0 ? 1.0f : 0.9975f;
  result.rounding_key = mix_bits(static_cast<std::uint64_t>(step));
  return result;
}

inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"adamw", StateFormat::exact, adamw_numbers},
      {"adamw_bf16", StateFormat::bf16, adamw_numbers},
      {"adamw_int8", StateFormat::int8, adamw_numbers},
      {"adam", StateFormat::exact,
       [](int step) -> Step {
         auto result = adam_numbers<AdamStep>(step);
         result.decay = step % 2 == 0 ? 0.0f : 0.01f;
         return result;
       }},
      {"lion", StateFormat::exact,
       [](int step) -> Step {
         return LionStep{.decay_factor = step % 2 == 0 ? 1.0f : 0.9975f,
                         .drops_denormals = step % 3 == 1};
       }},
      {"sgd", StateFormat::exact,
       [](int step) -> Step { return SgdStep{.decay = 0.01f, .drops_denormals = step % 3 == 1}; }},
      {"nesterov", StateFormat::exact,
       [](int step) -> Step {
         return SgdStep{.decay = 0.01f, .nesterov = true, .drops_denormals = step % 3 == 1};
       }},
      {"adagrad", StateFormat::exact,
       [](int step) -> Step {
         return AdagradStep{.decay = 0.01f, .drops_denormals = step % 3 == 1};
       }},
  };
  return all;
}

// Whether any number occurs, infinities and NaN among them, which a state never loses again, or
// those of training alone: of many sizes, with zeros.
enum class Numbers { any, tame };

struct Shape {
  Kind kind = kinds().front();
  DType weight_type = DType::bf16;
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;
  std::int64_t offset = 0;  // elements before the first, to misalign
  Numbers numbers = Numbers::any;

  std::string text() const {
    return fmt::format("{}, {} weights, {} gradients, {} {} elements + {}", kind.name,
                       name_of(weight_type), name_of(gradient_type), count,
                       numbers == Numbers::any ? "wild" : "tame", offset);
  }
};

inline void fill_tame(Array& array, std::uint64_t seed, std::uint64_t stream, double size) {
  const CounterRng rng(seed, stream);
  for (std::int64_t i = 0; i < array.whole(); ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const double spread = std::pow(10.0, -6 * rng.uniform(~index));
    array.set(i, i % 7 == 3 ? 0.0f : static_cast<float>(rng.normal(index) * size * spread));
  }
}

inline void fill(Array& array, Numbers numbers, std::uint64_t seed, std::uint64_t stream,
                 double size) {
  numbers == Numbers::any ? array.fill(seed, stream, size) : fill_tame(array, seed, stream, size);
}

// Spans for one call: tensors of every kind and some types, long runs of one kind and single ones
// of another between, small and large, empty ones too.
inline std::vector<Shape> mixed_shapes() {
  std::vector<Shape> shapes;
  const std::int64_t counts[] = {1536, 0, 5, 40009, 128, 1, 70001, 256};
  for (std::size_t i = 0; i < 160; ++i) {
    const std::size_t run = i < 90 ? i / 45 : i;  // the first two are longer than a launch's table
    Shape shape{kinds()[run % kinds().size()], run % 3 == 2 ? DType::f32 : DType::bf16,
                run % 5 == 4 ? DType::f32 : DType::bf16, counts[i % 8]};
    shape.offset = i % 4 == 3 ? 1 : 0;
    shape.numbers = Numbers::tame;
    shapes.push_back(shape);
  }
  return shapes;
}

// The step that the i-th of them takes: neighbours differ in decay and rounding.
inline Step mixed_step(const Shape& shape, std::size_t i) {
  return shape.kind.numbers(static_cast<int>(1 + i % 5));
}

// Bytes, with as many guards around them as an Array has.
struct Codes {
  Codes(std::int64_t count, std::int64_t offset)
      : offset(offset), bytes(static_cast<std::size_t>(count + offset + 16)) {}
  std::uint8_t* data() { return bytes.data() + offset; }

  std::int64_t offset;
  std::vector<std::uint8_t> bytes;
};

// The state of `count` parameters, with guards around every plane.
struct State {
  State(const Shape& shape, std::uint64_t seed)
      : shape(shape),
        weight(shape.weight_type, shape.count, shape.offset),
        low(DType::bf16, shape.count, shape.offset),
        first(moment_type(), moment_count(), shape.offset),
        second(moment_type(), moment_count(), shape.offset),
        first_codes(moment_plane_bytes(StateFormat::int8, shape.count), shape.offset),
        second_codes(moment_plane_bytes(StateFormat::int8, shape.count), shape.offset),
        scales(2 * state_blocks(shape.count), shape.offset) {
    fill(weight, shape.numbers, seed, 1, 1.0);
    low.fill(seed, 2, 1.0);  // any 16 bits are a low half
    fill(first, shape.numbers, seed, 3, 1e-2);
    fill(second, shape.numbers, seed, 4, 1e-4);
    // Second moments are squares: most of them not negative, so that most roots exist.
    for (std::int64_t i = 0; i < second.whole(); ++i) {
      if (i % 8 != 0 || shape.numbers == Numbers::tame) second.set(i, std::abs(second.at(i)));
    }
    const CounterRng rng(seed, 5);
    for (std::size_t i = 0; i < first_codes.bytes.size(); ++i) {
      const std::uint64_t bits = rng.bits(i);
      first_codes.bytes[i] = static_cast<std::uint8_t>(bits);
      second_codes.bytes[i] = static_cast<std::uint8_t>(bits >> 8);
    }
    for (std::size_t i = 0; i < scales.bytes.size(); ++i) {
      const auto bits = static_cast<std::uint8_t>(rng.bits(i) >> 16);
      scales.bytes[i] =
          shape.numbers == Numbers::any ? bits : static_cast<std::uint8_t>(80 + bits % 32);
    }
  }

  bool coded() const { return shape.kind.format == StateFormat::int8; }

  StateSpan span(Array& gradient) {
    StateSpan result;
    result.weight = weight.data();
    result.weight_type = shape.weight_type;
    if (shape.weight_type == DType::bf16) result.low = low.as<std::int16_t>();
    result.format = shape.kind.format;
    result.first = coded() ? first_codes.data() : first.data();
    if (shape.kind.moments() == 2) result.second = coded() ? second_codes.data() : second.data();
    if (coded()) result.scales = scales.data();
    result.gradient = gradient.data();
    result.gradient_type = gradient.type();
    result.count = shape.count;
    result.tensor_key = 77;
    result.first_element = kElement;
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
  DType moment_type() const {
    return shape.kind.format == StateFormat::bf16 ? DType::bf16 : DType::f32;
  }
  std::int64_t moment_count() const { return coded() ? 0 : shape.count; }

  // Where the tensor's elements start: their low 32 bits wrap within large spans.
  static constexpr std::int64_t kElement = (std::int64_t{3} << 32) - 256 * kStateBlock;

  Shape shape;
  Array weight, low, first, second;
  Codes first_codes, second_codes, scales;
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
    if (i >= expected.first.whole()) continue;
    if (!same_number(expected.first.at(i), found.first.at(i))) {
      return differ("first", expected.first.at(i), found.first.at(i));
    }
    if (!same_number(expected.second.at(i), found.second.at(i))) {
      return differ("second", expected.second.at(i), found.second.at(i));
    }
  }
  const auto differ = [](const char* plane, const Codes& a, const Codes& b) -> std::string {
    for (std::size_t i = 0; i < a.bytes.size(); ++i) {
      if (a.bytes[i] == b.bytes[i]) continue;
      return fmt::format("{}[{}]: expected {}, found {}", plane,
                         static_cast<std::int64_t>(i) - a.offset, a.bytes[i], b.bytes[i]);
    }
    return "";
  };
  for (const auto& [plane, a, b] :
       {std::tuple("scales", &expected.scales, &found.scales),
        std::tuple("first codes", &expected.first_codes, &found.first_codes),
        std::tuple("second codes", &expected.second_codes, &found.second_codes)}) {
    if (std::string text = differ(plane, *a, *b); !text.empty()) return text;
  }
  return "";
}

}  // namespace ebb::kernels::optimizer_cases
