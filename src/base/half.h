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

}  // namespace ebb
