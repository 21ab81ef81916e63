#include "states/schedule.h"

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
