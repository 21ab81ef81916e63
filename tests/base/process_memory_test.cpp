#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb {
namespace {

TEST(ProcessMemory, IsWhatTheSystemSays) {
  const ProcessMemory memory = process_memory(
      "Name:\tebb\nVmPeak:\t  999999 kB\nVmHWM:\t    9000 kB\nVmRSS:\t    7000 kB\n"
      "RssAnon:\t    4000 kB\nRssFile:\t    2500 kB\nRssShmem:\t     500 kB\nThreads:\t3\n");
  EXPECT_EQ(memory.own, 4000 * kKiB);
  EXPECT_EQ(memory.files, 3000 * kKiB);
  EXPECT_EQ(memory.resident(), 7000 * kKiB);
  EXPECT_EQ(memory.peak, 9000 * kKiB);
  EXPECT_EQ(process_memory("no such text\n").peak, 0);
}

TEST(ProcessMemory, GrowsWithWhatIsTouched) {
  const Bytes before = process_memory().own;
  const std::vector<char> touched(64 * kMiB, 1);  // so large that it comes from the system
  EXPECT_GE(process_memory().own - before, 63 * kMiB);
  EXPECT_GE(process_memory().peak, process_memory().own);
  EXPECT_EQ(touched.back(), 1);
}

}  // namespace
}  // namespace ebb
