// The fp32 master of a bf16 weight, kept as two halves: the bf16 the model computes with, and a
// signed 16-bit rest. Together they are the fp32 without loss, for all 2^32 patterns.
//
// The high half is rounded half up in integers (to nearest even would lose 32,768 patterns): the
// value is high * 2^16 + low, modulo 2^32, with low in [-2^15, 2^15). So the bits of low are simply
// the master's low 16 bits. Only the pair is a number: the high half of a NaN with an unusual
// payload need not be a NaN (0x7fffffff has the high half 0x8000), that of the arithmetic's own NaN
// (0x7fc00000, either sign) is.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace ebb::kernels {

struct Halves {
  bf16 high;
  std::int16_t low = 0;
  friend constexpr bool operator==(Halves, Halves) = default;
};

constexpr Halves split_master(float master) {
  const auto bits = std::bit_cast<std::uint32_t>(master);
  return {{static_cast<std::uint16_t>((bits + 0x8000u) >> 16)}, static_cast<std::int16_t>(bits)};
}

constexpr float join_master(bf16 high, std::int16_t low) {
  return std::bit_cast<float>((static_cast<std::uint32_t>(high.bits) << 16) +
                              static_cast<std::uint32_t>(std::int32_t{low}));
}

}  // namespace ebb::kernels
