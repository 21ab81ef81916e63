// Evaluating between steps: the loss a step would report, and no trace left in the run.
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/error.h"
#include "engine/small_runs.h"

namespace ebb::engine {
namespace {

struct Case {
  std::string name;
  plan::FixedChoices fixed;
};

std::vector<Case> cases() {
  using enum plan::Site;
  const auto fixed = [](plan::Site site, double fraction, std::int64_t recompute,
                        std::int64_t inputs) {
    return plan::FixedChoices{.site = site,
                              .offload_fraction = fraction,
                              .host_fraction = {},
                              .recompute_blocks = recompute,
                              .host_inputs = inputs,
                              .chunk_parameters = 8192};
  };
  return {{"resident", fixed(resident, 0, 0, 0)},
          {"stream", fixed(stream, 1, 0, 0)},
          {"host", fixed(host, 1, 0, 0)},
          {"stream, recompute, inputs on the host", fixed(stream, 1, 3, 3)},
          {"resident, inputs on the host", fixed(resident, 0, 0, 2)}};
}

class EvaluationTest : public testing::TestWithParam<int> {};

TEST_P(EvaluationTest, GivesTheLossOfTheNextStepAndChangesNothing) {
  TrainingSettings settings = small_settings();
  settings.accumulate = GetParam();
  const Outcome expected = train_small(settings, 2, 6);
  for (const Case& placement : cases()) {
    settings.fixed = placement.fixed;
    settings.disturbance = {.slow_lanes_seed = 5, .poison = true};
    Runtime runtime(test_device(), 2);
    TrainingRun run(runtime, settings);
    initialize(run);
    for (int step = 0; step < 6; ++step) {
      const std::vector<text::Batch> batches = made_up_batches(settings, step);
      Evaluation all;
      for (const text::Batch& batch : batches) {
        const Evaluation one = run.evaluate(batch);
        all.loss_sum += one.loss_sum;
        all.loss_tokens += one.loss_tokens;
      }
      const double loss = run.step(batches).loss;
      EXPECT_EQ(loss, all.loss_sum / static_cast<double>(all.loss_tokens)) << placement.name;
      EXPECT_EQ(loss, expected.losses[static_cast<std::size_t>(step)]) << placement.name;
    }
    run.finish();
    EXPECT_EQ(run.store().weights_digest(), expected.weights) << placement.name;
    EXPECT_EQ(run.store().moments_digest(), expected.moments) << placement.name;
    EXPECT_EQ(run.plan().peak(plan::Tier::device), run.measured_peak(plan::Tier::device));
    EXPECT_EQ(run.plan().peak(plan::Tier::host), run.measured_peak(plan::Tier::host));
  }
}
INSTANTIATE_TEST_SUITE_P(MicroBatches, EvaluationTest, testing::Values(1, 2, 3));

// What a micro-batch's share of the loss is depends on the targets that count, not on tokens.
TEST(IgnoredTargets, LeaveTheMeanToTheOthers) {
  TrainingSettings settings = small_settings();
  settings.accumulate = 2;
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, settings);
  initialize(run);
  std::vector<text::Batch> batches = made_up_batches(settings, 0);
  const Evaluation second = run.evaluate(batches[1]);
  for (std::size_t i = 5; i < batches[0].targets.size(); ++i) batches[0].targets[i] = -1;
  const Evaluation first = run.evaluate(batches[0]);
  EXPECT_EQ(first.loss_tokens, 5);
  EXPECT_EQ(second.loss_tokens, settings.shape.tokens());
  EXPECT_NEAR(run.step(batches).loss,
              (first.loss_sum + second.loss_sum) /
                  static_cast<double>(first.loss_tokens + second.loss_tokens),
              1e-12);
}

// A step on targets that are all the same batch's, once whole and once with its other half ignored
// in a second micro-batch, has one gradient: the mean over what counts.
TEST(IgnoredTargets, SplitOverMicroBatchesGiveOneGradient) {
  TrainingSettings settings = small_settings();
  settings.dtype = settings.gradient_type = DType::f32;
  Runtime runtime(test_device(), 2);
  const std::vector<text::Batch> whole = made_up_batches(settings, 0);
  const auto norm_of = [&](const std::vector<text::Batch>& batches) {
    TrainingSettings mine = settings;
    mine.accumulate = static_cast<std::int64_t>(batches.size());
    TrainingRun run(runtime, mine);
    initialize(run);
    return run.step(batches).norm;
  };
  std::vector<text::Batch> halves = {whole[0], whole[0]};
  for (std::size_t i = 0; i < whole[0].targets.size(); ++i) {
    halves[i % 7 < 3 ? 0 : 1].targets[i] = -1;
  }
  const double expected = norm_of(whole);
  EXPECT_NEAR(norm_of(halves), expected, 1e-5 * expected);
}

// A micro-batch of prompts that fill their rows: the step is that of the others.
TEST(IgnoredTargets, AMicroBatchOfNothingElseAddsNothing) {
  TrainingSettings settings = small_settings();
  settings.dtype = settings.gradient_type = DType::f32;
  Runtime runtime(test_device(), 2);
  const text::Batch good = made_up_batches(settings, 0)[0];
  text::Batch empty = made_up_batches(settings, 1)[0];
  for (std::int32_t& target : empty.targets) target = -1;
  const auto step = [&](const std::vector<text::Batch>& batches) {
    TrainingSettings mine = settings;
    mine.accumulate = static_cast<std::int64_t>(batches.size());
    TrainingRun run(runtime, mine);
    initialize(run);
    return run.step(batches);
  };
  const StepResult expected = step({good});
  for (const std::vector<text::Batch>& batches :
       {std::vector{good, empty}, std::vector{empty, good}, std::vector{empty, good, empty}}) {
    const StepResult found = step(batches);
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.norm, expected.norm);
  }
}

TEST(IgnoredTargets, AStepWithoutAnyOtherIsAnError) {
  const TrainingSettings settings = small_settings();
  Runtime runtime(test_device(), 1);
  TrainingRun run(runtime, settings);
  initialize(run);
  std::vector<text::Batch> batches = made_up_batches(settings, 0);
  for (std::int32_t& target : batches[0].targets) target = -1;
  try {
    run.step(batches);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("--sequence"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ebb::engine
