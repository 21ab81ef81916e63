#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/thread_pool.h"
#include "kernels/cpu/optimizer_ops.h"
#include "kernels/split_master.h"
#include "print.h"
#include "scale.h"

namespace ebb::kernels {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

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

// And the kernels take masters apart and put them together without loss: an update that moves
// nothing leaves every pattern as it is. In both orders of lanes: exact goes through planes in a
// row, bf16 by turns.
class SplitInKernels : public testing::TestWithParam<StateFormat> {};

TEST_P(SplitInKernels, LosesNoneOfAllPatterns) {
  constexpr std::int64_t kRun = 1 << 16;
  // Sanitized code is slow: a run of patterns in 61.
  const std::int64_t stride = small_scale() ? 61 : 1;
  std::atomic<std::int64_t> first_bad{-1};
  // A thread's own; gradients and moments are zero and stay so.
  struct Slot {
    ThreadPool alone{1};
    CpuOptimizerOps ops{alone};
    std::vector<bf16> weight = std::vector<bf16>(kRun);
    std::vector<bf16> gradient = weight;
    std::vector<std::int16_t> low = std::vector<std::int16_t>(kRun);
    std::vector<float> first = std::vector<float>(kRun);
    std::vector<float> second = first;
  };
  ThreadPool pool(usable_cpus());
  std::vector<Slot> slots(static_cast<std::size_t>(pool.slots()));
  pool.parallel_for((std::int64_t{1} << 32) / kRun / stride, [&](std::int64_t run, int thread) {
    Slot& slot = slots[at(thread)];
    const auto start = static_cast<std::uint32_t>(run * kRun * stride);
    for (std::int64_t i = 0; i < kRun; ++i) {
      const Halves halves = split_bits(start + static_cast<std::uint32_t>(i));
      slot.weight[at(i)] = halves.high;
      slot.low[at(i)] = halves.low;
    }
    const StateSpan span{.weight = slot.weight.data(),
                         .low = slot.low.data(),
                         .format = GetParam(),
                         .first = slot.first.data(),
                         .second = slot.second.data(),
                         .gradient = slot.gradient.data(),
                         .count = kRun};
    const StepScale scale;
    slot.ops.update(span, AdamWStep{.epsilon = std::numeric_limits<float>::infinity()}, &scale);
    for (std::int64_t i = 0; i < kRun; ++i) {
      const std::uint32_t before = start + static_cast<std::uint32_t>(i);
      const auto after =
          std::bit_cast<std::uint32_t>(join_master(slot.weight[at(i)], slot.low[at(i)]));
      const auto is_nan = [](std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; };
      if (after != before && !(is_nan(before) && is_nan(after))) first_bad = before;
    }
  });
  EXPECT_EQ(first_bad, -1) << "this pattern changed";
}

INSTANTIATE_TEST_SUITE_P(All, SplitInKernels,
                         testing::Values(StateFormat::exact, StateFormat::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace ebb::kernels
