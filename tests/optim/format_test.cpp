#include "optim/format.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb::optim {
namespace {

constexpr StateFormat kExact = StateFormat::exact;

static_assert(state_bytes_per_parameter(kExact, DType::bf16) == 10);
static_assert(state_bytes_per_parameter(kExact, DType::f32) == 8);
static_assert(state_bytes(kExact, DType::bf16, 0) == 0);
static_assert(state_bytes(kExact, DType::bf16, 1) == 64 + 64 + 4);
static_assert(state_bytes(kExact, DType::f32, 1) == 64 + 4);
static_assert(state_bytes(kExact, DType::bf16, 1 << 20) == 10 << 20);
static_assert(state_bytes(kExact, DType::bf16, std::int64_t{1} << 33) == std::int64_t{10} << 33);

// Planes are aligned, do not overlap and end where the piece ends.
TEST(StatePlanes, LieOneBehindTheOther) {
  for (const DType type : {DType::bf16, DType::f32}) {
    for (std::int64_t count = 0; count <= 129; ++count) {
      const Bytes bytes = state_bytes(kExact, type, count);
      std::vector<std::byte> memory(static_cast<std::size_t>(bytes + kPlaneAlignment));
      std::byte* base = memory.data();
      while (reinterpret_cast<std::uintptr_t>(base) % kPlaneAlignment != 0) ++base;
      const StatePlanes at = planes(base, kExact, type, count);
      const auto start = [&](const void* plane) {
        return static_cast<const std::byte*>(plane) - base;
      };
      EXPECT_EQ(start(at.first) % kPlaneAlignment, 0) << count;
      EXPECT_EQ(start(at.second) % kPlaneAlignment, 0) << count;
      EXPECT_EQ(start(at.second + count), bytes) << count;
      EXPECT_LE(start(at.first + count), start(at.second)) << count;
      if (type == DType::bf16) {
        EXPECT_EQ(start(at.low), 0) << count;
        EXPECT_LE(start(at.low + count), start(at.first)) << count;
      } else {
        EXPECT_EQ(at.low, nullptr) << count;
        EXPECT_EQ(start(at.first), 0) << count;
      }
      EXPECT_LE(bytes - count * state_bytes_per_parameter(kExact, type), 2 * kPlaneAlignment);
    }
  }
}

}  // namespace
}  // namespace ebb::optim
