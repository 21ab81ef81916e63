#include "kernels/moment_codes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ebb::kernels {
namespace {

constexpr std::uint32_t kMostFirst = (1u << kFirstCode.dropped) - 1;  // the largest random number
constexpr std::uint32_t kMostSecond = (1u << kSecondCode.dropped) - 1;

float bits(std::uint32_t pattern) { return std::bit_cast<float>(pattern); }

TEST(RoundAtRandom, KeepsWhatFits) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    const float value = to_float(bf16{static_cast<std::uint16_t>(high)});
    for (const std::uint32_t random : {0u, 0x8000u, 0xffffu}) {
      const bf16 rounded = round_at_random(value, random);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(to_float(rounded))) << high;
      } else {
        ASSERT_EQ(rounded.bits, high);
      }
    }
  }
}

TEST(RoundAtRandom, GoesToEitherNeighbourAndNeverToInfinity) {
  EXPECT_EQ(round_at_random(bits(0x3f800001u), 0).bits, 0x3f80);
  EXPECT_EQ(round_at_random(bits(0x3f800001u), 0xffff).bits, 0x3f81);
  EXPECT_EQ(round_at_random(bits(0xbf800001u), 0xffff).bits, 0xbf81);
  EXPECT_EQ(round_at_random(bits(0x3f80ffffu), 0).bits, 0x3f80);
  EXPECT_EQ(round_at_random(bits(0x7f7fffffu), 0xffff).bits, 0x7f7f);
  EXPECT_EQ(round_at_random(bits(0xff7f0001u), 0xffff).bits, 0xff7f);
  EXPECT_TRUE(std::isnan(to_float(round_at_random(bits(0x7f800001u), 0))));
  EXPECT_TRUE(std::isnan(to_float(round_at_random(bits(0xffffffffu), 0xffff))));
}

// All codes of all scales: what was stored is stored again, whatever the random number.
TEST(BlockCodes, KeepWhatFits) {
  for (int scale = 4; scale <= 254 - kFirstCode.octaves; ++scale) {
    const auto s = static_cast<std::uint8_t>(scale);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(decode_first(0x80, s)), 0u);  // zero has no sign
    for (std::uint32_t code = 0; code < 256; ++code) {
      const float m = decode_first(static_cast<std::uint8_t>(code), s);
      const std::uint32_t again = code == 0x80 ? 0 : code;
      ASSERT_TRUE(std::isfinite(m)) << scale << ", " << code;
      ASSERT_EQ(encode_first(m, s, 0), again) << scale;
      ASSERT_EQ(encode_first(m, s, kMostFirst), again) << scale;
      if (scale > 254 - kSecondCode.octaves) continue;
      const float v = decode_second(static_cast<std::uint8_t>(code), s);
      ASSERT_TRUE(std::isfinite(v) && v >= 0) << scale << ", " << code;
      const std::uint32_t not_zero = std::max(code, 1u);
      ASSERT_EQ(encode_second(v, s, 0), not_zero) << scale;
      ASSERT_EQ(encode_second(v, s, kMostSecond), not_zero) << scale;
    }
  }
}

TEST(BlockCodes, MemoryFilledWithZerosIsZero) {
  EXPECT_EQ(decode_first(0, 0), 0.0f);
  EXPECT_EQ(decode_second(0, 0), 0.0f);
}

// Every fraction of the block's largest at every exponent: rounding up leaves room in the code.
TEST(BlockCodes, TheLargestFits) {
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (std::uint32_t fraction = 0; fraction < 1u << 23; fraction += 4099) {
      for (const std::uint32_t offset : {0u, 4098u}) {
        const std::uint32_t largest = exponent << 23 | std::min(fraction + offset, 0x7fffffu);
        for (const BlockCode& code : {kFirstCode, kSecondCode}) {
          const std::uint8_t scale = block_scale(code, largest);
          if (scale == kNoScale) {
            ASSERT_GE(bits(largest), 0x1.cp127f);
            continue;
          }
          const std::uint32_t most =
              encode_magnitude(code, bits(largest), scale, (1u << code.dropped) - 1);
          ASSERT_LT(most, static_cast<std::uint32_t>(code.octaves + 1) << (23 - code.dropped))
              << fmt::format("{:08x}", largest);
          const float low =
              decode_magnitude(code, encode_magnitude(code, bits(largest), scale, 0), scale);
          // The sum with the floor is rounded to fp32 before all else.
          const float kept = bits(largest) + block_floor(scale) - block_floor(scale);
          ASSERT_LE(low, kept);
          ASSERT_GE(decode_magnitude(code, most, scale), kept);
        }
      }
    }
  }
}

TEST(BlockCodes, WhatIsNotFiniteMakesABlockOfNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), bits(0x7fffffffu)}) {
    const std::uint8_t scale = block_scale(kFirstCode, std::bit_cast<std::uint32_t>(bad));
    ASSERT_EQ(scale, kNoScale);
    EXPECT_EQ(encode_first(bad, scale, kMostFirst), 0);
    EXPECT_EQ(encode_first(-1.0f, scale, kMostFirst), 0);
    EXPECT_TRUE(std::isnan(decode_first(0, scale)));
    EXPECT_TRUE(std::isnan(decode_second(0, scale)));
  }
}

TEST(BlockCodes, ASecondMomentNeverBecomesZeroNorADenormal) {
  for (const float largest : {1.0f, 1e-20f, 1e-38f, bits(1u), 0.0f}) {
    const std::uint8_t scale = block_scale(kSecondCode, std::bit_cast<std::uint32_t>(largest));
    for (const float v : {largest, 1e-30f * largest, 0.0f}) {
      const float stored = decode_second(encode_second(v, scale, 0), scale);
      EXPECT_GE(stored, std::numeric_limits<float>::min()) << v << " of " << largest;
      EXPECT_LE(stored, std::max(1.01f * std::max(v, 0x1p-34f * largest), 1.2e-38f)) << v;
    }
  }
}

// Every element of a block has its own place, and the two of a pair of words lie side by side.
TEST(BlockCodes, PlacesAreAPermutation) {
  std::vector<int> seen(128);
  for (std::int64_t i = 0; i < 128; ++i) ++seen[static_cast<std::size_t>(code_index(i))];
  EXPECT_EQ(seen, std::vector<int>(128, 1));
  EXPECT_EQ(code_index(0), 0);
  EXPECT_EQ(code_index(1), 1);
  EXPECT_EQ(code_index(64), 2);
  EXPECT_EQ(code_index(65), 3);
  EXPECT_EQ(code_index(2), 4);
}

// The promise: the mean of the rounded values is the value, within the standard error of that mean.
// Three of them, as there are dozens of means; the numbers are always the same ones.
void expect_unbiased(const std::string& what, float value, const std::vector<double>& rounded) {
  double sum = 0, squares = 0;
  for (const double r : rounded) {
    sum += r - value;
    squares += (r - value) * (r - value);
  }
  const auto count = static_cast<double>(rounded.size());
  const double error = std::sqrt(squares) / count;
  EXPECT_LE(std::abs(sum / count), 3 * error) << what << " of " << value;
  EXPECT_GT(error, 0) << what << " of " << value << ": nothing was rounded";
}

TEST(CompactMoments, AreUnbiased) {
  const CounterRng values(1, 1);
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto value = static_cast<float>(std::exp2(-16 * values.uniform(i)));
    const std::uint8_t first_scale = block_scale(kFirstCode, std::bit_cast<std::uint32_t>(1.0f));
    const std::uint8_t second_scale = block_scale(kSecondCode, std::bit_cast<std::uint32_t>(1.0f));
    std::vector<double> bf16_first, bf16_second, int8_first, int8_second;
    // Half of them the elements of a step, half an element over the steps.
    for (std::int64_t n = 0; n < 40000; ++n) {
      const auto step = static_cast<std::uint64_t>(n % 2 == 0 ? 0 : n);
      const RoundingKey key = rounding_key(mix_bits(step), i);
      const ElementDice dice(key, n % 2 == 0 ? n : 17);
      bf16_first.push_back(to_float(round_at_random(value, dice.first(16))));
      bf16_second.push_back(to_float(round_at_random(value, dice.second(16))));
      const std::uint32_t first = dice.first(kFirstCode.dropped);
      const std::uint32_t second = dice.second(kSecondCode.dropped);
      int8_first.push_back(-decode_first(encode_first(-value, first_scale, first), first_scale));
      int8_second.push_back(
          decode_second(encode_second(value, second_scale, second), second_scale));
    }
    expect_unbiased("bf16 first", value, bf16_first);
    expect_unbiased("bf16 second", value, bf16_second);
    expect_unbiased("int8 first", value, int8_first);
    expect_unbiased("int8 second", value, int8_second);
  }
}

// Neighbours, elements that share their bits, both moments of an element, and one element at two
// steps know nothing of each other.
TEST(RandomBits, AreUncorrelated) {
  constexpr std::int64_t kCount = 1 << 16;
  const auto centred = [](std::uint32_t sixteen) { return (sixteen + 0.5) / 65536 - 0.5; };
  const auto first = [&](RoundingKey key, std::int64_t e) {
    return centred(ElementDice(key, e).first(16));
  };
  const auto second = [&](RoundingKey key, std::int64_t e) {
    return centred(ElementDice(key, e).second(16));
  };
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const RoundingKey key = rounding_key(mix_bits(step), 3);
    const RoundingKey next = rounding_key(mix_bits(step + 1), 3);
    double sums[7] = {};
    for (std::int64_t e = 0; e < kCount; ++e) {
      sums[0] += first(key, e) * first(key, e + 1);
      sums[1] += second(key, e) * second(key, e + 1);
      sums[2] += first(key, e) * first(key, e ^ 64);
      sums[3] += second(key, e) * second(key, e ^ 64);
      sums[4] += first(key, e) * second(key, e);
      sums[5] += first(key, e) * first(next, e);
      sums[6] += second(key, e) * second(next, e);
    }
    for (int i = 0; i < 7; ++i) {
      // In standard errors: a product of two has variance 1/144; pairs 64 apart are counted twice.
      EXPECT_LT(std::abs(sums[i]) * 12 / std::sqrt(static_cast<double>(kCount)), 5)
          << "pair " << i << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
