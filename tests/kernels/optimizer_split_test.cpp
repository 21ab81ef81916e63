#include <gtest/gtest.h>

#include <atomic>

#include "base/machine.h"
#include "base/thread_pool.h"
#include "kernels/split_master.h"

namespace ebb::kernels {
namespace {

constexpr Halves split_bits(std::uint32_t bits) { return split_master(std::bit_cast<float>(bits)); }

// Exactly between two bf16 goes up, in the direction of the bits.
static_assert(split_bits(0x3f808000u) == Halves{{0x3f81}, -0x8000});
static_assert(split_bits(0x3f807fffu) == Halves{{0x3f80}, 0x7fff});
static_assert(split_bits(0x7f7fffffu) == Halves{{0x7f80}, -1});
static_assert(split_bits(0x7fc00000u) == Halves{{0x7fc0}, 0});

// The promise: the two halves are the fp32 master without loss, whatever its bits.
TEST(SplitMaster, LosesNoneOfAllPatterns) {
  constexpr std::int64_t kRun = 1 << 20;
  std::atomic<std::int64_t> first_bad{-1};
  ThreadPool pool(usable_cpus());
  pool.parallel_for((std::int64_t{1} << 32) / kRun, [&](std::int64_t run, int) {
    const auto start = static_cast<std::uint32_t>(run * kRun);
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < kRun; ++i) {
      const Halves halves = split_bits(start + i);
      wrong |= std::bit_cast<std::uint32_t>(join_master(halves.high, halves.low)) ^ (start + i);
    }
    if (wrong != 0) first_bad = start;
  });
  EXPECT_EQ(first_bad, -1) << "some pattern of the 2^20 from " << first_bad << " on changed";
}

}  // namespace
}  // namespace ebb::kernels
