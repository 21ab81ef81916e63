// Element types, and the one place where their roundings are written down.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "ebb/units.h"

namespace ebb {

enum class DType : std::uint8_t { f32, bf16, i16, i32 };

constexpr Bytes size_of(DType type) { return type == DType::f32 || type == DType::i32 ? 4 : 2; }

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::i16: return "int16";
    case DType::i32: return "int32";
  }
  return "?";
}

struct bf16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;
};

constexpr float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
constexpr float to_float(float value) { return value; }

// Round to nearest even, for activations and gradients. NaN stays NaN, denormals are kept.
constexpr bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <class T>
constexpr T from_float(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace ebb
