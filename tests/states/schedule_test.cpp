#include "states/schedule.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "ebb/error.h"

namespace ebb::states {
namespace {

using Shape = Schedule::Shape;

TEST(Schedule, WarmsUpFromAShareOfThePeakToThePeak) {
  const Schedule schedule{.shape = Shape::constant, .peak = 1.0, .warmup = 4, .steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1.0);
}

TEST(Schedule, LinearEndsRightBehindTheLastStep) {
  const Schedule schedule{.shape = Shape::linear, .peak = 1.0, .warmup = 2, .steps = 12};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.9);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 12), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 13), 0.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 0.0);
}

TEST(Schedule, SharesItsStepsWithOneThatEndsElsewhere) {
  const std::vector<Shape> shapes = {Shape::constant, Shape::linear, Shape::cosine, Shape::wsd};
  int parted = 0;
  for (const Shape one : shapes) {
    for (const Shape other : shapes) {
      for (const std::int64_t warmup : {0, 7, 30}) {
        const Schedule a{.shape = one, .peak = 0.3, .warmup = warmup, .steps = 20};
        const Schedule b{.shape = other, .peak = 0.3, .warmup = warmup, .steps = 37};
        const std::int64_t common = steps_in_common(a, b);
        for (std::int64_t step = 1; step <= std::min<std::int64_t>(common, 60); ++step) {
          ASSERT_EQ(learning_rate(a, step), learning_rate(b, step))
              << name_of(one) << " and " << name_of(other) << ", step " << step;
        }
        parted += learning_rate(a, 60) != learning_rate(b, 60) ? common < 60 : 0;
      }
    }
  }
  EXPECT_GT(parted, 0);
  // As far as it goes, and no less.
  EXPECT_GE(steps_in_common({.shape = Shape::constant, .steps = 5}, {.shape = Shape::constant}),
            60);
  EXPECT_EQ(steps_in_common({.shape = Shape::wsd, .steps = 10}, {.shape = Shape::wsd, .steps = 20}),
            8);
  EXPECT_EQ(steps_in_common({.shape = Shape::cosine, .warmup = 4, .steps = 10},
                            {.shape = Shape::cosine, .warmup = 4, .steps = 20}),
            4);
  EXPECT_EQ(steps_in_common({.peak = 1.0, .warmup = 4}, {.peak = 2.0, .warmup = 4}), 0);
  EXPECT_GE(steps_in_common({.steps = 9}, {.steps = 9}), 60);
}

TEST(Schedule, CosineHasItsMiddleAndItsFinalShare) {
  const Schedule schedule{.shape = Shape::cosine, .peak = 2.0, .warmup = 0, .steps = 10};
  EXPECT_DOUBLE_EQ(schedule.final_share, 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 6), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 11), 0.2);
}

TEST(Schedule, WsdIsStableThenDecays) {
  const Schedule schedule{.shape = Shape::wsd, .peak = 1.0, .warmup = 5, .steps = 100};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 6), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 81), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 82), 0.95);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 91), 0.5);
  EXPECT_NEAR(learning_rate(schedule, 100), 0.05, 1e-15);
}

TEST(Schedule, AWarmupAsLongAsTheRunNeverDecays) {
  for (const Shape shape : {Shape::constant, Shape::linear, Shape::cosine, Shape::wsd}) {
    for (const std::int64_t warmup : {8, 20}) {
      const Schedule schedule{.shape = shape, .peak = 1.0, .warmup = warmup, .steps = 8};
      for (std::int64_t step = 1; step <= 8; ++step) {
        EXPECT_DOUBLE_EQ(learning_rate(schedule, step),
                         static_cast<double>(step) / static_cast<double>(warmup))
            << name_of(shape) << ", step " << step;
      }
    }
  }
}

TEST(Schedule, ARunOfOneStepTrainsAtThePeak) {
  for (const Shape shape : {Shape::constant, Shape::linear, Shape::cosine, Shape::wsd}) {
    const Schedule schedule{.shape = shape, .peak = 0.5, .warmup = 0, .steps = 1};
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.5) << name_of(shape);
  }
}

TEST(Schedule, NamesGoBothWays) {
  for (const Shape shape : {Shape::constant, Shape::linear, Shape::cosine, Shape::wsd}) {
    EXPECT_EQ(parse_schedule(name_of(shape)), shape);
  }
  try {
    parse_schedule("cosin");
    FAIL() << "accepted an unknown name";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "--schedule \"cosin\": expected one of constant, linear, cosine, wsd");
  }
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_NO_THROW(validate(Schedule{}));
  EXPECT_THROW(validate(Schedule{.peak = -1.0}), ConfigError);
  EXPECT_THROW(validate(Schedule{.warmup = -1}), ConfigError);
  EXPECT_THROW(validate(Schedule{.final_share = 1.5}), ConfigError);
  EXPECT_THROW(validate(Schedule{.decay_share = -0.1}), ConfigError);
}

}  // namespace
}  // namespace ebb::states
