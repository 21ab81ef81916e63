// The trace of a run: all of it, in order, and at no cost to the numbers.
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "engine/small_runs.h"
#include "plan/trace_check.h"

namespace ebb::engine {
namespace {

// On the cpu device all lanes read one clock. A GPU's is another than the host lane's.
double clock_tolerance() { return test_device() == "cpu" ? 0 : 1e-4; }

// All kinds of tasks on all lanes.
TrainingSettings mixed_settings() {
  TrainingSettings s = small_settings();
  s.accumulate = 2;
  s.fixed = {.site = plan::Site::stream,
             .offload_fraction = 0.9,
             .host_fraction = 0.4,
             .recompute_blocks = 2,
             .host_inputs = 2,
             .chunk_parameters = 4096};
  return s;
}

std::vector<std::int64_t> shown(const plan::TraceCheck& check) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, seconds] : check.step_seconds()) steps.push_back(step);
  return steps;
}

TEST(Trace, OfARunKeepsItsPromisesAndItsNumbers) {
  for (const std::uint64_t slow : {0, 5}) {
    TrainingSettings settings = mixed_settings();
    const Outcome expected = train_small(settings, 2, 7);
    settings.disturbance.slow_lanes_seed = slow;
    settings.trace_steps = 3;
    Runtime runtime(test_device(), 2);
    TrainingRun run(runtime, settings);
    initialize(run);
    run.set_steps_done(0);
    for (int step = 0; step < 7; ++step) run.step(made_up_batches(settings, step));
    const plan::TraceCheck check(plan::text_of(run.trace()), run.plan(), clock_tolerance());
    check.expect_all();
    EXPECT_EQ(shown(check), (std::vector<std::int64_t>{5, 6, 7}));
    EXPECT_EQ(run.store().weights_digest(), expected.weights);
    EXPECT_EQ(run.store().moments_digest(), expected.moments);
  }
}

TEST(Trace, CountsStepsFromTheModelsFirstAndLeavesValidationOut) {
  TrainingSettings settings = mixed_settings();
  settings.trace_steps = 8;
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, settings);
  initialize(run);
  run.set_steps_done(40);
  for (int step = 0; step < 2; ++step) {
    const std::vector<text::Batch> batches = made_up_batches(settings, step);
    run.step(batches);
    run.evaluate(batches[0]);
  }
  const plan::TraceCheck check(plan::text_of(run.trace()), run.plan(), clock_tolerance());
  check.expect_all();
  EXPECT_EQ(shown(check), (std::vector<std::int64_t>{41, 42}));
}

TEST(Trace, OfARunThatFailedEndsWithWhatRan) {
  TrainingSettings settings = mixed_settings();
  settings.trace_steps = 2;
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, settings);
  initialize(run);
  run.step(made_up_batches(settings, 0));
  run.finish();
  run.store().write_master(8, 3, std::vector<float>(1, std::numeric_limits<float>::infinity()));
  EXPECT_THROW(run.step(made_up_batches(settings, 1)), NumericsError);
  const plan::TraceCheck check(plan::text_of(run.trace()), run.plan(), clock_tolerance());
  check.expect_no_overlap();
  check.expect_waits_are_kept();
  EXPECT_EQ(shown(check), (std::vector<std::int64_t>{1, 2}));
  const auto norm_ran = [&](std::int64_t step) {
    return std::any_of(check.found().begin(), check.found().end(), [&](const auto& one) {
      const auto& [of_step, id] = one.first;
      return of_step == step &&
             run.plan().program.tasks[static_cast<std::size_t>(id)].op == plan::Op::norm;
    });
  };
  EXPECT_TRUE(norm_ran(1));
  EXPECT_TRUE(norm_ran(2));
  for (const auto& [key, times] : check.found()) {
    const plan::Task& task = run.plan().program.tasks[static_cast<std::size_t>(key.second)];
    EXPECT_FALSE(key.first == 2 && (task.op == plan::Op::update && task.lane == plan::Lane::host))
        << "it was skipped";
  }
}

TEST(Trace, IsNotKeptWhereNobodyAsks) {
  const TrainingSettings settings = small_settings();
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, settings);
  initialize(run);
  run.step(made_up_batches(settings, 0));
  EXPECT_TRUE(run.trace().spans.empty());
}

}  // namespace
}  // namespace ebb::engine
