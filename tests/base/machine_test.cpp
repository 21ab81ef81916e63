#include "base/machine.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

constexpr std::string_view kMemInfo =
    "MemTotal:       24689764 kB\nMemFree:         1000000 kB\nMemAvailable:   16777216 kB\n"
    "Buffers:          372020 kB\n";

TEST(Machine, WhatIsAvailableIsWhatTheSystemSaysOrAGroupHasLeft) {
  EXPECT_EQ(available_memory(kMemInfo, {}), 16 * kGiB);
  EXPECT_EQ(available_memory(kMemInfo, {.memory_left = 3 * kGiB}), 3 * kGiB);
  EXPECT_EQ(available_memory(kMemInfo, {.memory_left = 30 * kGiB}), 16 * kGiB);
  for (const char* silent : {"", "MemTotal: 5 kB\n", "MemAvailable:", "MemAvailable: many kB\n"}) {
    EXPECT_EQ(available_memory(silent, {.memory_left = 3 * kGiB}), 3 * kGiB) << silent;
  }
}

TEST(Machine, NoMoreIsAvailableThanThereIs) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), usable_memory());
}

TEST(Machine, AMarginIsLeftToOthers) {
  EXPECT_EQ(less_margin(16 * kGiB), 15 * kGiB);
  EXPECT_EQ(less_margin(kGiB), kGiB - 128 * kMiB);
  EXPECT_EQ(less_margin(kGiB + 5), kGiB - 128 * kMiB);
  EXPECT_EQ(less_margin(100 * kMiB), 0);
  EXPECT_EQ(less_margin(0), 0);
}

}  // namespace
}  // namespace ebb
