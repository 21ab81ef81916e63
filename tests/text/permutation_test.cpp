#include "text/data/permutation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace ebb::text {
namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 0; i < size; ++i) out.push_back(permutation(i));
  return out;
}

TEST(Permutation, IsABijection) {
  std::vector<std::uint64_t> sizes(200);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const std::uint64_t large : {255, 256, 257, 4095, 4096, 4097, 99991}) sizes.push_back(large);
  for (const std::uint64_t size : sizes) {
    for (const std::uint64_t seed : {0, 1, 12345}) {
      std::vector<bool> seen(size);
      for (const std::uint64_t value : order(size, seed, seed + 3)) {
        ASSERT_LT(value, size) << "seed " << seed;
        ASSERT_FALSE(seen[value]) << value << " twice, size " << size << ", seed " << seed;
        seen[value] = true;
      }
    }
  }
}

TEST(Permutation, DiffersByEpochAndSeed) {
  for (std::uint64_t size = 20; size <= 200; ++size) {
    std::set<std::vector<std::uint64_t>> orders;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      for (std::uint64_t epoch = 0; epoch < 5; ++epoch) orders.insert(order(size, seed, epoch));
    }
    EXPECT_EQ(orders.size(), 25u) << "size " << size;
  }
}

TEST(Permutation, ReachesEveryOrderOfThree) {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed) orders.insert(order(3, seed, 0));
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Permutation, SendsAnElementAnywhereAboutEquallyOften) {
  constexpr std::uint64_t kSize = 10;
  constexpr int kSeeds = 20000;
  std::vector<int> hits(kSize);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) ++hits[Permutation(kSize, seed, 1)(3)];
  // Nine degrees of freedom: above 33.7 once in 10,000 tries, and the seeds are fixed.
  double chi_squared = 0;
  for (const int count : hits) {
    const double expected = static_cast<double>(kSeeds) / kSize;
    chi_squared += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_squared, 33.7);
}

TEST(Permutation, TakesTheLargestRange) {
  const std::uint64_t size = ~std::uint64_t{0};
  std::set<std::uint64_t> values;
  const Permutation permutation(size, 7, 0);
  for (std::uint64_t i = 0; i < 1000; ++i) values.insert(permutation(size - 1 - i));
  EXPECT_EQ(values.size(), 1000u);
  EXPECT_LT(*values.rbegin(), size);
}

// A saved run's position means this order: changing it silently would break exact resume.
TEST(Permutation, StaysTheSameAcrossVersions) {
  EXPECT_EQ(order(8, 1, 0), (std::vector<std::uint64_t>{4, 2, 3, 7, 6, 1, 0, 5}));
}

}  // namespace
}  // namespace ebb::text
