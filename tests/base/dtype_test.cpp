#include "base/dtype.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace ebb {
namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The value of a bf16 pattern as the rounding sees it: the one past the largest finite value is
// 2^128, where infinity sits.
double rounding_value(std::uint16_t bits) {
  const float value = to_float(bf16{bits});
  return std::isinf(value) ? std::copysign(0x1p128, value) : value;
}

// Round to nearest even said in values instead of bits: the nearer of the two bf16 neighbours, the
// even one when both are as near. All differences are exact in double.
std::uint16_t nearest_even(float value) {
  const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  if (std::isinf(value)) return high;
  const auto next = static_cast<std::uint16_t>(high + 1);
  const double below = std::fabs(value - rounding_value(high));
  const double above = std::fabs(rounding_value(next) - value);
  if (below == above) return (high & 1) == 0 ? high : next;
  return below < above ? high : next;
}

TEST(DType, KnowsSizesAndNames) {
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::i16), 2);
  EXPECT_EQ(size_of(DType::i32), 4);
  EXPECT_EQ(name_of(DType::f32), "fp32");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(sizeof(bf16), 2u);
}

TEST(ToBf16, KeepsEveryBf16Value) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    const bf16 value{static_cast<std::uint16_t>(high)};
    if (std::isnan(to_float(value))) continue;
    ASSERT_EQ(to_bf16(to_float(value)).bits, high) << std::hex << high;
  }
}

TEST(ToBf16, RoundsToNearestEvenAroundEveryBf16Value) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const std::uint32_t bits = high << 16 | low;
      const float value = float_of(bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(to_bf16(value).bits, nearest_even(value)) << "bits " << std::hex << bits;
    }
  }
}

TEST(ToBf16, KeepsNaNAndItsSign) {
  for (std::uint32_t sign : {0u, 0x80000000u}) {
    // Payloads in the low half only must not turn into infinity, nor carry into the sign.
    for (std::uint32_t payload : {1u, 0x7fffu, 0x8000u, 0xffffu, 0x400000u, 0x7fffffu}) {
      const std::uint32_t bits = sign | 0x7f800000u | payload;
      const float rounded = to_float(to_bf16(float_of(bits)));
      EXPECT_TRUE(std::isnan(rounded)) << std::hex << bits;
      EXPECT_EQ(std::signbit(rounded), sign != 0) << std::hex << bits;
    }
  }
}

TEST(ToBf16, OverflowsToInfinityOnlyPastTheMidpoint) {
  EXPECT_EQ(to_bf16(float_of(0x7f7f7fff)).bits, 0x7f7f);
  EXPECT_EQ(to_bf16(float_of(0x7f7f8000)).bits, 0x7f80);
  EXPECT_EQ(to_bf16(-std::numeric_limits<float>::max()).bits, 0xff80);
}

TEST(ToBf16, KeepsDenormalsAndSignedZero) {
  EXPECT_EQ(to_bf16(float_of(0x00010000)).bits, 0x0001);
  EXPECT_EQ(to_bf16(float_of(0x80010000)).bits, 0x8001);
  EXPECT_EQ(to_bf16(0.0f).bits, 0x0000);
  EXPECT_EQ(to_bf16(-0.0f).bits, 0x8000);
}

TEST(FromFloat, GivesTheAskedType) {
  EXPECT_EQ(from_float<float>(1.00001f), 1.00001f);
  EXPECT_EQ(from_float<bf16>(1.00001f).bits, 0x3f80);
  EXPECT_EQ(to_float(2.5f), 2.5f);
}

}  // namespace
}  // namespace ebb
