#include "plan/workload.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ebb::plan {
namespace {

TEST(Planes, LieOneBehindTheOtherInWholeGrains) {
  // As GGUF's Q8_0 has it: 32 numbers and their scale are 34 bytes.
  const Planes quantized = {{34, 32}};
  EXPECT_EQ(quantized.bytes(64), 68);
  EXPECT_EQ(quantized.bytes(65), 102);
  EXPECT_EQ(quantized.ranges(96, 32, 64), (std::vector<Range>{{34, 68}}));
  // A byte each, and scales beside them: from the next multiple of 64 bytes on.
  const Planes scaled = {{1}, {4, 128}};
  EXPECT_EQ(scaled.bytes(1000), 1024 + 8 * 4);
  EXPECT_EQ(scaled.ranges(1000, 256, 512), (std::vector<Range>{{256, 512}, {1024 + 8, 16}}));
  EXPECT_EQ(Planes().bytes(1000), 0);
}

TEST(Planes, NothingBeginsWithinAGrain) {
  EXPECT_THROW(Planes({{34, 32}}).ranges(96, 16, 32), std::logic_error);
}

}  // namespace
}  // namespace ebb::plan
