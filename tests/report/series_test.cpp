// Long curves in little memory.
#include "report/series.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/json.h"

namespace ebb::report {
namespace {

std::vector<double> made_up(std::int64_t count, std::uint64_t seed) {
  std::vector<double> values;
  std::uint64_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    values.push_back(static_cast<double>(state >> 40) / 1e6);
  }
  return values;
}

TEST(Series, KeepsAShortCurveAsItIs) {
  const std::vector<double> values = made_up(Series::kMostParts, 1);
  Series series;
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.add(static_cast<std::int64_t>(i) + 1, static_cast<double>(i) / 2, values[i]);
  }
  ASSERT_EQ(series.parts().size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Series::Part& part = series.parts()[i];
    EXPECT_EQ(part.step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(part.seconds, static_cast<double>(i) / 2);
    EXPECT_EQ(part.mean(), values[i]) << "point " << i;
    EXPECT_EQ(part.least, values[i]) << "point " << i;
  }
  EXPECT_FALSE(to_json(series).contains("most"));
}

TEST(Series, OfAnyLengthKeepsExtremesMeansAndEnds) {
  for (const std::int64_t count : {601, 1200, 1201, 4801, 100'000}) {
    SCOPED_TRACE(count);
    std::vector<double> values = made_up(count, static_cast<std::uint64_t>(count));
    values[values.size() / 3] = 1e6;       // a spike of one step
    values[values.size() / 2 + 1] = -1e6;  // and one down
    Series series;
    for (std::int64_t i = 0; i < count; ++i) {
      series.add(i + 1, static_cast<double>(i), values[static_cast<std::size_t>(i)]);
    }
    const auto& parts = series.parts();
    ASSERT_LE(parts.size(), Series::kMostParts);
    EXPECT_GE(parts.size(), Series::kMostParts / 2);
    std::size_t first = 0;
    for (const Series::Part& part : parts) {
      const std::size_t behind = static_cast<std::size_t>(part.step);
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(behind);
      ASSERT_EQ(part.count, end - begin) << "part from point " << first;
      EXPECT_EQ(part.least, *std::min_element(begin, end)) << "part from point " << first;
      EXPECT_EQ(part.most, *std::max_element(begin, end)) << "part from point " << first;
      EXPECT_NEAR(part.sum, std::accumulate(begin, end, 0.0), 1e-6 * 1e6);
      first = behind;
    }
    EXPECT_EQ(parts.back().step, count);
    EXPECT_EQ(series.last(), values.back());
    EXPECT_EQ(series.least(), -1e6);
    EXPECT_EQ(to_json(series).at("most").size(), parts.size());
  }
}

TEST(Series, CountsWhatIsNotFinite) {
  Series series;
  series.add(1, 0, std::numeric_limits<double>::quiet_NaN());
  series.add(2, 1, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(series.empty());
  series.add(3, 2, 5);
  EXPECT_EQ(series.not_finite(), 2);
  EXPECT_EQ(series.points(), 1);
  EXPECT_EQ(series.parts().front().step, 3);
}

}  // namespace
}  // namespace ebb::report
