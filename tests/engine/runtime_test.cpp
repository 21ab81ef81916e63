#include "engine/runtime.h"

#include <gtest/gtest.h>

namespace ebb::engine {
namespace {

TEST(LimitsWithin, WhatIsSetIsTakenAndTheRestIsTheMachines) {
  const MachineMemory gpu{.device = 80 * kGiB, .host = 200 * kGiB};
  const plan::Limits none = limits_within(gpu, {}, {});
  EXPECT_EQ(none[plan::Tier::device], 80 * kGiB);
  EXPECT_EQ(none[plan::Tier::host], 200 * kGiB);
  const plan::Limits one = limits_within(gpu, 10 * kGiB, {});
  EXPECT_EQ(one[plan::Tier::device], 10 * kGiB);
  EXPECT_EQ(one[plan::Tier::host], 200 * kGiB);
}

TEST(LimitsWithin, OfOneMemoryTheOtherTierHasTheRest) {
  const MachineMemory cpu{.device = 12 * kGiB, .host = 4 * kGiB, .shared = true};
  EXPECT_EQ(limits_within(cpu, {}, {})[plan::Tier::device], 12 * kGiB);
  EXPECT_EQ(limits_within(cpu, {}, {})[plan::Tier::host], 4 * kGiB);
  EXPECT_EQ(limits_within(cpu, kGiB, {})[plan::Tier::host], 15 * kGiB);
  EXPECT_EQ(limits_within(cpu, 15 * kGiB, {})[plan::Tier::host], kGiB);
  EXPECT_EQ(limits_within(cpu, {}, 10 * kGiB)[plan::Tier::device], 6 * kGiB);
  EXPECT_EQ(limits_within(cpu, 40 * kGiB, {})[plan::Tier::host], 4 * kGiB);
  const plan::Limits both = limits_within(cpu, 9 * kGiB, 10 * kGiB);
  EXPECT_EQ(both[plan::Tier::device], 9 * kGiB);
  EXPECT_EQ(both[plan::Tier::host], 10 * kGiB);
}

TEST(Runtime, OfTheCpuDeviceSharesOneMemory) {
  const Runtime runtime("cpu", 1);
  EXPECT_TRUE(runtime.memory().shared);
  EXPECT_EQ(runtime.memory().device, runtime.profile().device_memory);
}

}  // namespace
}  // namespace ebb::engine
