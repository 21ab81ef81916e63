// Plans of an evaluation on its own: programs without races, and the fewest weights away from the
// device that its limits allow.
#include "plan/evaluation_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/evaluation_program.h"
#include "plan/even_work.h"
#include "plan/explain.h"
#include "plan/program_check.h"
#include "plan/random_work.h"
#include "plan/trace_check.h"

namespace ebb::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Bytes kRoomy = Bytes{1} << 50;

Limits limits(Bytes device, Bytes host = kRoomy) {
  return {{Tier::device, device}, {Tier::host, host}};
}

TEST(EvaluationPlan, ItsProgramsAreFreeOfRacesAndOverlaps) {
  for (std::uint64_t seed = 0; seed < fewer_if_small(200); ++seed) {
    Workload work = random_workload(seed);
    work.micro_batches = 1;
    Choices choices = random_choices(seed, work);
    if (seed % 2 == 1) {
      work.topology = with_shelf();
      choices = with_some_below(seed, work, choices);
    }
    SCOPED_TRACE(describe(seed, work, choices));
    const Plan plan = evaluation_with(work, choices, limits(kRoomy), machine());
    EXPECT_EQ(check_uses(plan.program), "");
    EXPECT_EQ(check_written_first(plan.program), "");
    EXPECT_EQ(check_lanes(plan.program), "");
    EXPECT_EQ(check_addresses(plan.program, plan.layout), "");
    EXPECT_EQ(check_waits(plan.program), "");
    EXPECT_EQ(check_races(plan.program, plan.layout), "");
    EXPECT_GT(plan.prediction.step_seconds, 0);
    for (const Object& object : plan.program.objects) {
      EXPECT_NE(object.purpose, Purpose::states);
      EXPECT_NE(object.purpose, Purpose::gradients);
    }
  }
}

TEST(EvaluationPlan, EverythingStaysWhereThereIsRoom) {
  const Plan plan = find_evaluation(even_work(), {}, limits(kRoomy), machine());
  EXPECT_TRUE(fits(plan));
  EXPECT_EQ(plan.choices.streamed_weights, 0);
  EXPECT_EQ(plan.choices.depth, Choices::kLeastDepth);
  EXPECT_EQ(plan.prediction.busy_seconds[Lane::up], 0);
}

// Eight blocks of 131,072 bytes: a little less memory, and one more of them streams.
TEST(EvaluationPlan, AsManyWeightsStayAsFit) {
  const Workload work = even_work();
  const Bytes all = find_evaluation(work, {}, limits(kRoomy), machine()).peak(Tier::device);
  std::int64_t streamed = 0;
  Bytes device = all - 1;
  for (;; device -= 65536) {
    const Plan plan = find_evaluation(work, {}, limits(device), machine());
    if (!fits(plan)) break;
    EXPECT_GE(plan.choices.streamed_weights, streamed) << device;
    EXPECT_LE(plan.peak(Tier::device), device);
    streamed = plan.choices.streamed_weights;
    Choices fewer = plan.choices;
    fewer.depth = Choices::kLeastDepth;
    --fewer.streamed_weights;
    EXPECT_FALSE(fits(evaluation_with(work, fewer, limits(device), machine()))) << device;
  }
  EXPECT_EQ(streamed, 8);
  EXPECT_LT(device, all - 5 * 131'072);
}

TEST(EvaluationPlan, WhatHostMemoryCannotHoldGoesBelow) {
  Workload work = even_work();
  work.topology = with_shelf(65536);
  const FixedChoices fixed{.streamed_weights = 8, .below = kShelf};
  Limits most = limits(kRoomy);
  most[kShelf] = kRoomy;
  const Plan roomy = find_evaluation(work, fixed, most, machine());
  EXPECT_EQ(roomy.choices.disk_weights, 0);
  most[Tier::host] = 700'000;
  const Plan tight = find_evaluation(work, fixed, most, machine());
  ASSERT_TRUE(fits(tight));
  EXPECT_GT(tight.choices.disk_weights, 0);
  EXPECT_LT(tight.choices.disk_weights, 8);
  EXPECT_LE(tight.peak(Tier::host), 700'000);
  Choices fewer = tight.choices;
  --fewer.disk_weights;
  EXPECT_FALSE(fits(evaluation_with(work, fewer, most, machine())));
  EXPECT_THAT(evaluation_flags(tight.choices), HasSubstr("--disk-weights"));
}

// Every value that the flags name is a choice that fixes it.
TEST(EvaluationPlan, ItsFlagsReproduceIt) {
  const Workload work = even_work();
  const Bytes all = find_evaluation(work, {}, limits(kRoomy), machine()).peak(Tier::device);
  const Plan plan = find_evaluation(work, {}, limits(all - 200'000), machine());
  ASSERT_TRUE(fits(plan));
  const FixedChoices fixed{.streamed_weights = plan.choices.streamed_weights,
                           .vocabulary_cut = plan.choices.vocabulary_cut,
                           .chunk_parameters = plan.choices.chunk_parameters,
                           .depth = plan.choices.depth};
  const Plan again = find_evaluation(work, fixed, limits(kRoomy), machine());
  EXPECT_EQ(again.choices, plan.choices);
  EXPECT_EQ(again.prediction.step_seconds, plan.prediction.step_seconds);
  EXPECT_EQ(evaluation_flags(plan.choices),
            fmt::format("--weights {} --vocabulary whole --chunk-parameters {} --depth {}",
                        plan.choices.streamed_weights, plan.choices.chunk_parameters,
                        plan.choices.depth));
}

// Where the next batch's weights can come while this one's head computes, a batch of streamed
// weights takes what the link takes.
TEST(EvaluationPlan, BatchesOverlap) {
  const Workload work = even_work();
  const Plan plan = find_evaluation(work, {.streamed_weights = 8}, limits(kRoomy), machine());
  const double link = plan.prediction.busy_seconds[Lane::up];
  EXPECT_LT(plan.prediction.step_seconds, 1.1 * std::max(link, 8 * 4e8 / 1e12));
}

TEST(EvaluationPlan, IsExplained) {
  const Workload work = even_work();
  const Plan plan = find_evaluation(work, {.streamed_weights = 3}, limits(kRoomy), machine());
  EXPECT_THAT(explain_evaluation(plan),
              AllOf(HasSubstr("--weights 3"), HasSubstr("on the device"), HasSubstr("on the host"),
                    HasSubstr("needed"), HasSubstr("limit"), HasSubstr("tokens/s"),
                    HasSubstr("bound by"), Not(HasSubstr("gradients")), Not(HasSubstr("states"))));
  TraceCheck check(text_of(predicted_evaluation(plan)), plan, 0);
  check.expect_all();
}

}  // namespace
}  // namespace ebb::plan
