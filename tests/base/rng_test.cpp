#include "base/rng.h"

#include <array>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::uint64_t kSamples = 200'000;

TEST(MixBits, IsSplitmix64) {
  // The first outputs of splitmix64 seeded with 0; its state grows by the golden ratio's bits.
  EXPECT_EQ(mix_bits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix_bits(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
}

TEST(CounterRng, DependsOnSeedStreamAndIndexAlone) {
  static_assert(CounterRng(1, 2).bits(3) == CounterRng(1, 2).bits(3));
  const CounterRng a(1, 2), b(1, 2);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t forward = a.bits(i);
    b.bits(99 - i);  // the order of asking does not matter
    ASSERT_EQ(forward, b.bits(i)) << "index " << i;
    ASSERT_EQ(a.normal(i), b.normal(i)) << "index " << i;
  }
}

TEST(CounterRng, DiffersBySeedStreamAndIndex) {
  const CounterRng rng(1, 2);
  EXPECT_NE(rng.bits(0), rng.bits(1));
  EXPECT_NE(rng.bits(0), CounterRng(2, 2).bits(0));
  EXPECT_NE(rng.bits(0), CounterRng(1, 3).bits(0));
  EXPECT_NE(rng.bits(0), CounterRng(2, 1).bits(0)) << "seed and stream are not exchangeable";
}

TEST(CounterRng, SetsEveryBitHalfTheTime) {
  const CounterRng rng(7, 0);
  std::array<int, 64> ones{};
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    for (int bit = 0; bit < 64; ++bit) ones[bit] += rng.bits(i) >> bit & 1;
  }
  const double deviation = std::sqrt(kSamples * 0.25);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NEAR(ones[bit], kSamples / 2.0, 5 * deviation) << "bit " << bit;
  }
}

TEST(CounterRng, UniformFillsItsBucketsEvenly) {
  const CounterRng rng(7, 1);
  std::array<int, 16> buckets{};
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const double value = rng.uniform(i);
    ASSERT_GE(value, 0.0) << "index " << i;
    ASSERT_LT(value, 1.0) << "index " << i;
    ++buckets[static_cast<std::size_t>(value * buckets.size())];
  }
  const double expected = static_cast<double>(kSamples) / buckets.size();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_NEAR(buckets[i], expected, 5 * std::sqrt(expected)) << "bucket " << i;
  }
}

TEST(CounterRng, BelowReachesEveryValueEvenly) {
  const CounterRng rng(7, 2);
  std::array<int, 7> counts{};
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t value = rng.below(i, counts.size());
    ASSERT_LT(value, counts.size()) << "index " << i;
    ++counts[value];
  }
  const double expected = static_cast<double>(kSamples) / counts.size();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_NEAR(counts[i], expected, 5 * std::sqrt(expected)) << "value " << i;
  }
  EXPECT_EQ(rng.below(0, 1), 0u);
}

TEST(CounterRng, NormalHasTheMomentsOfTheNormal) {
  const CounterRng rng(7, 3);
  double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0, last = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const double x = rng.normal(i);
    ASSERT_TRUE(std::isfinite(x)) << "index " << i;
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
    neighbours += x * last;
    last = x;
  }
  // Five standard errors each: those of x, x^2, x^3, x^4 and x*y have variances 1, 2, 15, 96, 1.
  const double error = 5 / std::sqrt(static_cast<double>(kSamples));
  EXPECT_NEAR(sum / kSamples, 0, error);
  EXPECT_NEAR(squares / kSamples, 1, error * std::sqrt(2));
  EXPECT_NEAR(cubes / kSamples, 0, error * std::sqrt(15));
  EXPECT_NEAR(fourths / kSamples, 3, error * std::sqrt(96));
  EXPECT_NEAR(neighbours / kSamples, 0, error);
}

}  // namespace
}  // namespace ebb
