#include "states/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "states/format.h"

namespace ebb::states {
namespace {

// A state of two moments in memory of its own.
struct Stored {
  Stored(StateFormat format, std::int64_t count)
      : memory(static_cast<std::size_t>(state_bytes({format, DType::f32}, count))),
        span(state_span(planes(memory.data(), {format, DType::f32}, count), {format, DType::f32}, 0,
                        count)) {}
  std::vector<std::byte> memory;
  kernels::StateSpan span;
};

struct Moments {
  explicit Moments(std::int64_t count)
      : first(static_cast<std::size_t>(count)), second(static_cast<std::size_t>(count)) {}
  std::vector<float> first, second;
};

Moments some_moments(std::int64_t count) {
  Moments result(count);
  const CounterRng rng(3, 1);
  for (std::size_t i = 0; i < result.first.size(); ++i) {
    result.first[i] = static_cast<float>(1e-3 * rng.normal(2 * i));
    result.second[i] = static_cast<float>(1e-6 * std::pow(rng.normal(2 * i + 1), 2));
  }
  return result;
}

Moments through(StateFormat format, const Moments& moments) {
  const auto count = static_cast<std::int64_t>(moments.first.size());
  Stored stored(format, count);
  narrow_moments(moments.first.data(), moments.second.data(), stored.span);
  Moments result(count);
  widen_moments(stored.span, result.first.data(), result.second.data());
  return result;
}

TEST(ConvertMoments, ExactLosesNothing) {
  const Moments before = some_moments(300);
  const Moments after = through(StateFormat::exact, before);
  EXPECT_EQ(after.first, before.first);
  EXPECT_EQ(after.second, before.second);
}

TEST(ConvertMoments, CompactFormatsRoundToTheNearest) {
  const Moments before = some_moments(300);
  for (const StateFormat format : {StateFormat::bf16, StateFormat::int8}) {
    const bool coded = format == StateFormat::int8;
    const Moments after = through(format, before);
    for (std::size_t i = 0; i < before.first.size(); ++i) {
      double largest = 0;  // of the block
      for (std::size_t j = i / 128 * 128; j < std::min(i / 128 * 128 + 128, before.first.size());
           ++j) {
        largest = std::max<double>(largest, std::abs(before.first[j]));
      }
      // Half a step: of the fraction's last bit, or of the block, which has 63 steps at least.
      const double half_step = coded ? largest / 126 : std::abs(before.first[i]) / 256;
      EXPECT_NEAR(after.first[i], before.first[i], half_step) << i;
      EXPECT_NEAR(after.second[i], before.second[i], before.second[i] / (coded ? 15.9 : 255.9))
          << i;
    }
  }
}

TEST(ConvertMoments, ZerosAndMemoryFilledWithZerosAreZero) {
  for (const StateFormat format : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    const Moments after = through(format, Moments(130));
    EXPECT_EQ(after.first, Moments(130).first);
    // int8 has no second moment of zero, but one whose root is nothing beside any epsilon.
    for (const float v : after.second) EXPECT_LE(v, format == StateFormat::int8 ? 0x1p-125f : 0.0f);
    const Stored zeros(format, 130);
    Moments read(130);
    read.first[7] = 1;
    widen_moments(zeros.span, read.first.data(), read.second.data());
    EXPECT_EQ(read.first, Moments(130).first);
    EXPECT_EQ(read.second, Moments(130).second);
  }
}

TEST(ConvertMoments, WhatIsNotFiniteIsSeen) {
  for (const StateFormat format : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    Moments moments = some_moments(300);
    moments.first[200] = std::numeric_limits<float>::quiet_NaN();
    const Moments after = through(format, moments);
    EXPECT_TRUE(std::isnan(after.first[200]));
    EXPECT_TRUE(std::isfinite(after.first[100]));
  }
}

TEST(ConvertMoments, OneMomentAlone) {
  const std::vector<float> first = {1, 2, 3};
  std::vector<float> stored(3), read(3);
  kernels::StateSpan span{.first = stored.data(), .count = 3};
  narrow_moments(first.data(), nullptr, span);
  widen_moments(span, read.data(), nullptr);
  EXPECT_EQ(read, first);
}

}  // namespace
}  // namespace ebb::states
