#include "kernels/moment_codes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ebb::kernels {
namespace {

constexpr std::uint32_t kMostFirst = (1u << kFractionBits) - 1;  // the largest random number
constexpr std::uint32_t kMostSecond = (1u << kSecondDropped) - 1;

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
  for (int scale = 1; scale < 255; ++scale) {
    const auto s = static_cast<std::uint8_t>(scale);
    for (std::uint32_t code = 0; code < 256; ++code) {
      const auto stored = static_cast<std::uint8_t>(code);
      if (code != 0 && scale >= kLeastStep && scale <= 254 - kFirstOctaves) {
        const float m = decode_first(stored, s);
        ASSERT_TRUE(std::isfinite(m)) << scale << ", " << code;
        ASSERT_EQ(encode_first(m, s, 0), code) << scale;
        ASSERT_EQ(encode_first(m, s, kMostFirst), code) << scale;
      }
      if (scale > 254 - kSecondOctaves) continue;
      const float v = decode_second(stored, s);
      ASSERT_TRUE(std::isnormal(v) && v > 0) << scale << ", " << code;
      ASSERT_EQ(encode_second(v, s, 0), code) << scale;
      ASSERT_EQ(encode_second(v, s, kMostSecond), code) << scale;
    }
  }
}

TEST(BlockCodes, MemoryFilledWithZerosIsZero) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(decode_first(0, 0)), 0u);
  EXPECT_EQ(decode_second(0, 0), 0.0f);
}

// Every fraction of the block's largest at every exponent: rounding up leaves room in the code, and
// a smaller scale would not.
TEST(BlockCodes, TheLargestFits) {
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (std::uint32_t fraction = 0; fraction < 1u << 23; fraction += 4099) {
      for (const std::uint32_t offset : {0u, 4098u}) {
        const float largest = bits(exponent << 23 | std::min(fraction + offset, 0x7fffffu));
        const std::uint8_t first = first_scale(largest);
        if (first != kNoScale) {
          const float step = first_step(first);
          ASSERT_LE(largest, 127 * step) << largest;
          ASSERT_TRUE(first == kLeastStep || largest > 63 * step) << largest;
          ASSERT_GE(decode_first(encode_first(largest, first, kMostFirst), first), largest - step);
          ASSERT_LE(decode_first(encode_first(-largest, first, 0), first), 0);
        } else {
          ASSERT_GE(largest, 0x1.fp127f);
        }
        const std::uint8_t second = second_scale(largest);
        if (second == kNoScale) {
          ASSERT_GE(largest, 0x1.cp127f);
          continue;
        }
        const float down = decode_second(encode_second(largest, second, 0), second);
        const float up = decode_second(encode_second(largest, second, kMostSecond), second);
        ASSERT_LE(down, std::max(largest, power_of_two(kLeastSecond))) << largest;
        ASSERT_GE(up, largest) << largest;
        ASSERT_LE(up, std::max(1.126f * largest, power_of_two(kLeastSecond))) << largest;
      }
    }
  }
}

TEST(BlockCodes, WhatIsNotFiniteMakesABlockOfNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), bits(0x7fffffffu)}) {
    ASSERT_EQ(first_scale(bad), kNoScale);
    ASSERT_EQ(second_scale(bad), kNoScale);
    for (const float any : {bad, -1.0f}) {
      EXPECT_TRUE(std::isnan(decode_first(encode_first(any, kNoScale, kMostFirst), kNoScale)));
      EXPECT_TRUE(std::isnan(decode_second(encode_second(any, kNoScale, kMostSecond), kNoScale)));
    }
  }
}

TEST(BlockCodes, ASecondMomentNeverBecomesZeroNorADenormal) {
  for (const float largest : {1.0f, 1e-20f, 1e-38f, bits(1u), 0.0f}) {
    const std::uint8_t scale = second_scale(largest);
    for (const float v : {largest, 1e-30f * largest, 0.0f}) {
      const float stored = decode_second(encode_second(v, scale, 0), scale);
      // Nor does half of it, so neither what a beta2 makes of it.
      EXPECT_GE(stored / 2, std::numeric_limits<float>::min()) << v << " of " << largest;
      EXPECT_LE(stored,
                std::max(1.01f * std::max(v, 0x1p-30f * largest), power_of_two(kLeastSecond)))
          << v;
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
    const std::uint8_t first_to = first_scale(1.0f);
    const std::uint8_t second_to = second_scale(1.0f);
    std::vector<double> bf16_first, bf16_second, int8_first, int8_second;
    // Half of them the elements of a step, half an element over the steps.
    for (std::int64_t n = 0; n < 40000; ++n) {
      const bool one_step = n < 20000;
      const auto step = static_cast<std::uint64_t>(one_step ? 0 : n);
      const RoundingKey key = rounding_key(mix_bits(step), i);
      const ElementDice dice(key, one_step ? n : 17);
      bf16_first.push_back(to_float(round_at_random(value, dice.first(16))));
      bf16_second.push_back(to_float(round_at_random(value, dice.second(16))));
      const BlockDice block(key, one_step ? n / 128 : 17);
      const std::int64_t place = one_step ? n % 128 : 5;
      int8_first.push_back(
          -decode_first(encode_first(-value, first_to, block.first(place)), first_to));
      int8_second.push_back(
          decode_second(encode_second(value, second_to, block.second(place)), second_to));
    }
    expect_unbiased("bf16 first", value, bf16_first);
    expect_unbiased("bf16 second", value, bf16_second);
    expect_unbiased("int8 first", value, int8_first);
    expect_unbiased("int8 second", value, int8_second);
  }
}

// Over the blocks, what a place of a block rounds with is even, and the places of one block differ.
TEST(BlockDice, AreEvenAndApart) {
  const RoundingKey key = rounding_key(mix_bits(7), 3);
  constexpr std::int64_t kBlocks = 1 << 14;
  for (const std::int64_t place : {0, 1, 63, 127}) {
    std::vector<int> firsts(256), seconds(256);
    double product = 0;
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      const BlockDice dice(key, block);
      ++firsts.at(dice.first(place) >> 7);
      ++seconds.at(dice.second(place) >> 12);
      product += ((dice.first(place) + 0.5) / (1 << 15) - 0.5) *
                 ((dice.second(place) + 0.5) / (1 << 20) - 0.5);
    }
    for (int i = 0; i < 256; ++i) {
      EXPECT_NEAR(firsts[static_cast<std::size_t>(i)], 64, 5 * 8) << place;
      EXPECT_NEAR(seconds[static_cast<std::size_t>(i)], 64, 5 * 8) << place;
    }
    EXPECT_LT(std::abs(product) * 12 / std::sqrt(static_cast<double>(kBlocks)), 5) << place;
  }
  const BlockDice dice(key, 11);
  std::vector<int> seen(64);
  for (std::int64_t i = 0; i < 128; ++i) ++seen.at(dice.first(i) >> 9);
  EXPECT_EQ(seen, std::vector<int>(64, 2));
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
