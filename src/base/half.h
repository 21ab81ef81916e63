// IEEE half precision, which files hold and nothing computes with.
#pragma once

#include <bit>
#include <cstdint>

namespace ebb {

// Sign, 5 bits of exponent, 10 of fraction. Exact: subnormals, infinities and NaN stay what they
// are.
constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {
    // Zero, or a subnormal: a whole number of 2^-24, which fp32 holds as a normal number.
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// What is beyond it becomes infinite: from 65520 on.
inline constexpr float kLargestHalf = 65504.0f;

// Round to nearest even, subnormals too. NaN stays NaN.
constexpr std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0f))
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14f)) {
    // A subnormal is a whole number of 2^-24, which is the grain of fp32 from 0.5 on.
    const auto steps = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return static_cast<std::uint16_t>(sign | (steps - std::bit_cast<std::uint32_t>(0.5f)));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - ((127u - 15u) << 23)) >> 13));
}

}  // namespace ebb
