#include "states/format.h"

#include <gtest/gtest.h>

#include <vector>

namespace ebb::states {
namespace {

constexpr StateKind kExact{StateFormat::exact, DType::bf16};
constexpr StateKind kInt8{StateFormat::int8, DType::bf16};

static_assert(state_bytes_per_parameter(kExact) == 10);
static_assert(state_bytes_per_parameter({StateFormat::exact, DType::f32}) == 8);
static_assert(state_bytes_per_parameter({StateFormat::exact, DType::bf16, 1}) == 6);
static_assert(state_bytes_per_parameter({StateFormat::bf16, DType::bf16}) == 6);
static_assert(state_bytes_per_parameter(kInt8) == 4 + 2.0 / 128);
static_assert(state_bytes(kExact, 0) == 0);
static_assert(state_bytes(kExact, 1) == 64 + 64 + 4);
static_assert(state_bytes({StateFormat::exact, DType::f32}, 1) == 64 + 4);
static_assert(state_bytes(kExact, 1 << 20) == 10 << 20);
static_assert(state_bytes(kExact, std::int64_t{1} << 33) == std::int64_t{10} << 33);
static_assert(state_bytes(kInt8, 1) == 64 + 128 + 128 + 2);  // codes are whole blocks
static_assert(state_bytes(kInt8, 1 << 20) == (4 << 20) + (2 << 13));

// Planes are aligned, do not overlap and end where the piece ends.
TEST(StatePlanes, LieOneBehindTheOther) {
  for (const StateFormat format : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    for (const DType type : {DType::bf16, DType::f32}) {
      for (const int moments : {1, 2}) {
        for (std::int64_t count = 1; count <= 259; ++count) {
          const StateKind kind{format, type, moments};
          const Bytes bytes = state_bytes(kind, count);
          std::vector<std::byte> memory(static_cast<std::size_t>(bytes + kPlaneAlignment));
          std::byte* base = memory.data();
          while (reinterpret_cast<std::uintptr_t>(base) % kPlaneAlignment != 0) ++base;
          const StatePlanes at = planes(base, kind, count);
          EXPECT_EQ(at.low != nullptr, type == DType::bf16);
          EXPECT_EQ(at.second != nullptr, moments == 2);
          EXPECT_EQ(at.scales != nullptr, format == StateFormat::int8);
          Bytes end = 0;
          int planes_seen = 0;
          const auto expect_next = [&](const void* plane, Bytes size) {
            if (plane == nullptr) return;
            const Bytes start = static_cast<const std::byte*>(plane) - base;
            EXPECT_EQ(start % kPlaneAlignment, 0) << count;
            EXPECT_GE(start, end) << count;
            EXPECT_LT(start - end, kPlaneAlignment) << count;
            end = start + size;
            ++planes_seen;
          };
          expect_next(at.low, 2 * count);
          expect_next(at.first, kernels::moment_plane_bytes(format, count));
          expect_next(at.second, kernels::moment_plane_bytes(format, count));
          expect_next(at.scales, moments * kernels::state_blocks(count));
          EXPECT_EQ(end, bytes) << count;
          EXPECT_EQ(planes_seen,
                    1 + (type == DType::bf16) + (moments == 2) + (format == StateFormat::int8));
        }
      }
    }
  }
}

// A span in the middle of a chunk points at its own part of every plane.
TEST(StatePlanes, SpansPointAtTheirPart) {
  alignas(kPlaneAlignment) std::byte memory[4096] = {};
  const StatePlanes at = planes(memory, kInt8, 512);
  const kernels::StateSpan span = state_span(at, kInt8, 256, 100);
  EXPECT_EQ(span.low, at.low + 256);
  EXPECT_EQ(span.first, static_cast<std::byte*>(at.first) + 256);
  EXPECT_EQ(span.second, static_cast<std::byte*>(at.second) + 256);
  EXPECT_EQ(span.scales, at.scales + 4);
  EXPECT_EQ(span.count, 100);
  EXPECT_EQ(span.first_element, 0);
  const StateKind plain{StateFormat::exact, DType::f32, 1};
  const StatePlanes one = planes(memory, plain, 512);
  const kernels::StateSpan rest = state_span(one, plain, 3, 5);
  EXPECT_EQ(rest.low, nullptr);
  EXPECT_EQ(rest.first, static_cast<float*>(one.first) + 3);
  EXPECT_EQ(rest.second, nullptr);
  EXPECT_EQ(rest.scales, nullptr);
}

}  // namespace
}  // namespace ebb::states
