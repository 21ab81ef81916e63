// Rows of `ebb bench train`: which there are, and what is said of those that ended differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "ebb/error.h"
#include "engine/small_runs.h"
#include "measure/bench/hand_made.h"
#include "measure/bench/training_report.h"

namespace ebb::measure {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(BenchRows, EveryDeviceHasATableOfItsOwn) {
  for (const auto& [device, model] :
       {std::pair{"cpu", "preset:small"}, std::pair{"cuda", "preset:qwen2.5-3b"}}) {
    const std::vector<TrainingRow> rows = training_rows({}, device);
    ASSERT_EQ(rows.size(), 9u);
    EXPECT_EQ(rows[3].model, model);
    EXPECT_EQ(rows[3].limit, "-90%");
    EXPECT_EQ(rows[5].tokens(), 4 * rows[3].tokens());
    EXPECT_EQ(rows[7].format, StateFormat::int8);
    EXPECT_EQ(rows[8].limit, "off");
  }
  EXPECT_EQ(training_rows({}, "cuda")[0].tokens(), 32768);
  EXPECT_EQ(training_rows({}, "cuda")[8].tokens(), 32768);
}

TEST(BenchRows, TheTableOfTiersHasItsOwnLimits) {
  TrainBenchOptions o;
  o.table = BenchTable::tiers;
  const std::vector<TrainingRow> rows = training_rows(o, "cuda");
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[3].limit, "16GiB");
  EXPECT_EQ(rows[4].tokens(), rows[0].tokens());
  EXPECT_EQ(rows[8].limit, "all");
  EXPECT_EQ(training_rows(o, "cpu").size(), 4u);
  o.accumulate = {2};
  EXPECT_THROW(training_rows(o, "cpu"), ConfigError);
}

TEST(BenchRows, AreEveryLimitWithEveryFormatAndCount) {
  TrainBenchOptions o;
  o.model = "preset:tiny";
  o.limits = {"resident", "10MiB"};
  o.state_formats = {StateFormat::exact, StateFormat::int8};
  o.accumulate = {1, 2, 3};
  EXPECT_EQ(training_rows(o, "cpu").size(), 12u);
  o.only = {3, 12};
  const std::vector<TrainingRow> some = training_rows(o, "cpu");
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].number, 3);
  EXPECT_EQ(some[1].format, StateFormat::int8);
  EXPECT_EQ(some[1].accumulate, 3);
  o.only = {13};
  EXPECT_THROW(training_rows(o, "cpu"), ConfigError);
  TrainBenchOptions curve;
  curve.curve = true;
  EXPECT_EQ(training_rows(curve, "cuda").size(), 8u);
}

TEST(BenchRows, LimitsAreWordsSharesOrBytes) {
  EXPECT_EQ(parse_limit("resident").kind, RowLimit::Kind::resident);
  EXPECT_EQ(parse_limit("off").kind, RowLimit::Kind::off);
  EXPECT_EQ(parse_limit("all").kind, RowLimit::Kind::all);
  EXPECT_DOUBLE_EQ(parse_limit("-12.5%").share, 0.125);
  EXPECT_EQ(parse_limit("3MiB").bytes, 3 * kMiB);
  for (const char* text : {"", "-%", "-101%", "-5", "90%", "-1e400%", "-nan%", "some"}) {
    EXPECT_THROW(parse_limit(text), ConfigError) << text;
  }
}

RowResult row(int number, const std::string& limit, double seconds, const std::string& digest) {
  RowResult result;
  result.row = {.number = number,
                .model = "preset:tiny",
                .sequence = 4,
                .micro_batch = 1,
                .accumulate = 1,
                .limit = limit,
                .format = StateFormat::exact};
  result.chosen = MeasuredPlan{.predicted_seconds = 2, .step_seconds = {seconds}, .digest = digest};
  return result;
}

TEST(BenchReport, OtherWeightsAreAFailureThatNamesTheRows) {
  std::vector<RowResult> rows = {row(1, "-50%", 2, "aa"), row(2, "resident", 1, "aa")};
  EXPECT_EQ(compare_rows(rows).failure, "");
  EXPECT_EQ(rows[0].share_of_resident, 0.5);
  EXPECT_EQ(rows[1].share_of_resident, 1);

  rows.push_back(row(3, "off", 4, "bb"));
  EXPECT_THAT(compare_rows(rows).failure,
              AllOf(HasSubstr("row 3 and row 1"), HasSubstr("bb and aa"), Not(HasSubstr("row 2"))));
  rows[2].row.accumulate = 2;
  EXPECT_EQ(compare_rows(rows).failure, "") << "other batches, other weights";

  rows[0].hand_made = {*rows[0].chosen};
  rows[0].hand_made[0].name = "mine";
  EXPECT_EQ(compare_rows(rows).failure, "");
  rows[0].hand_made[0].digest = "cc";
  EXPECT_THAT(compare_rows(rows).failure, HasSubstr("its plan 'mine'"));
}

TEST(BenchReport, SpeedsSharesAndPeaks) {
  RowResult one = row(7, "resident", 1, "0123456789abcdef");
  one.chosen->sites = {0.25, 0.75, 0};
  one.chosen->utilization = 0.5;
  one.chosen->device = {.limit = 3 * kMiB, .predicted = kMiB, .measured = kMiB + 1};
  const Json json = to_json(one);
  EXPECT_EQ(json.at("tokens_per_second"), 4);
  EXPECT_EQ(json.at("predicted_tokens_per_second"), 2);
  EXPECT_EQ(json.at("predicted_over_measured"), 0.5);
  EXPECT_EQ(json.at("utilization"), 0.5);
  EXPECT_TRUE(json.at("share_of_resident").is_null());
  EXPECT_EQ(json.at("sites").at("stream"), 0.75);
  EXPECT_THAT(to_text({one}), AllOf(HasSubstr("25% resident, 75% stream"), HasSubstr("50.0%"),
                                    HasSubstr("1 B from predicted"), HasSubstr("01234567")));
}

TEST(HandMadePlans, AreEightThatFitAndDiffer) {
  engine::Runtime runtime("cpu", 1);
  engine::TrainingSettings s = engine::small_settings();
  const plan::Plan resident = engine::plan_training(runtime, s);
  s.fixed = {};
  // Less half of the states, ten bytes a parameter.
  s.limits[plan::Tier::device] =
      resident.peak(plan::Tier::device) - 5 * resident.workload.parameters();
  const plan::Plan chosen = engine::plan_training(runtime, s);
  const std::vector<HandMadePlan> plans = hand_made_plans(chosen);
  ASSERT_EQ(plans.size(), kHandMadePlans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_TRUE(plan::fits(plans[i].plan)) << plans[i].name;
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(plans[i].plan.choices, plans[j].plan.choices);
  }
}

}  // namespace
}  // namespace ebb::measure
