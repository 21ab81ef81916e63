// A step's program takes host memory of its own, for each task: the plan counts it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/settings.h"
#include "engine/small_runs.h"
#include "heap_watch.h"

namespace ebb::engine {
namespace {

TrainingSettings many_passes(std::int64_t accumulate) {
  TrainingSettings s = small_settings();
  s.shape = {.rows = 1, .sequence = 4};
  s.accumulate = accumulate;
  return s;
}

// What the heap grows by from one program to a larger one, in each task of it.
struct Growth {
  Bytes bytes = 0;
  Bytes tasks = 0;
};

template <class Measure>
Growth growth(const TrainingSettings& small, const TrainingSettings& large, Measure measure) {
  Growth result;
  for (const bool is_large : {false, true}) {
    const TrainingSettings& s = is_large ? large : small;
    Runtime runtime("cpu", 1);
    const HeapWatch heap;
    const std::int64_t tasks = measure(runtime, s);
    result.bytes += is_large ? heap.peak() : -heap.peak();
    result.tasks += is_large ? tasks : -tasks;
  }
  return result;
}

TEST(PlanSize, ATaskOfAPlanAndARunTakesNoMoreThanIsCounted) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  if (test_device() != "cpu") GTEST_SKIP() << "of the cpu device's queues";
  for (const plan::Site site : {plan::Site::resident, plan::Site::stream, plan::Site::host}) {
    TrainingSettings small = many_passes(64);
    TrainingSettings large = many_passes(256);
    small.fixed.site = large.fixed.site = site;
    const Growth found = growth(small, large, [](Runtime& runtime, const TrainingSettings& s) {
      TrainingRun run(runtime, s);
      initialize(run);
      run.step(made_up_batches(s, 0));
      run.finish();
      return static_cast<std::int64_t>(run.plan().program.tasks.size());
    });
    ASSERT_GT(found.tasks, 0);
    const Bytes each = found.bytes / found.tasks;
    RecordProperty(std::string(name_of(site)), std::to_string(each));
    EXPECT_LE(each, kTaskBytes) << name_of(site);
    EXPECT_GE(each, kTaskBytes / 8) << "counted far too much: " << name_of(site);
  }
}

TEST(PlanSize, ATracedTaskTakesNoMoreThanIsCounted) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  if (test_device() != "cpu") GTEST_SKIP() << "of the cpu device's queues";
  TrainingSettings few = many_passes(64);
  few.trace_steps = 1;
  TrainingSettings many = few;
  many.trace_steps = 9;
  Bytes peaks[2] = {};
  std::int64_t tasks = 0;
  for (const bool is_many : {false, true}) {
    const TrainingSettings& s = is_many ? many : few;
    Runtime runtime("cpu", 1);
    const HeapWatch heap;
    TrainingRun run(runtime, s);
    initialize(run);
    for (int step = 0; step < 12; ++step) run.step(made_up_batches(s, step));
    std::size_t written = 0;
    plan::write_trace(run.trace(), [&](std::string_view text) { written += text.size(); });
    EXPECT_GT(written, 0u);
    peaks[is_many] = heap.peak();
    tasks = static_cast<std::int64_t>(run.plan().program.tasks.size());
  }
  const Bytes each = (peaks[1] - peaks[0]) / (8 * tasks);
  RecordProperty("bytes", std::to_string(each));
  EXPECT_LE(each, kTracedTaskBytes);
  EXPECT_GE(each, kTracedTaskBytes / 8);
}

TEST(PlanSize, IsPartOfTheHostLimit) {
  TrainingSettings settings = many_passes(300);
  Runtime runtime(test_device(), 1);
  const plan::Plan plan = plan_training(runtime, settings);
  const Bytes own = plan.peak(plan::Tier::host) - plan.layout.size_of(plan::Tier::host) -
                    plan.workload.extra(plan::Tier::host);
  // And those of an evaluation.
  const std::size_t tasks = plan.program.tasks.size() + plan.workload.blocks.size() + 2;
  EXPECT_EQ(own, static_cast<Bytes>(tasks) * kTaskBytes);
  EXPECT_GT(own, 5 * kMiB);
  settings.limits[plan::Tier::host] = plan.peak(plan::Tier::host) - 1;
  try {
    plan_training(runtime, settings);
    FAIL() << "planned with a host limit one byte too small";
  } catch (const OutOfBudget& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("plan and queues"), std::string::npos)
        << refusal.what();
  }
  settings.limits[plan::Tier::host] = plan.peak(plan::Tier::host);
  EXPECT_NO_THROW(plan_training(runtime, settings));
}

// So many passes are not laid out to find out that there is no room for the plan of all of them.
TEST(PlanSize, OfVeryManyMicroBatchesIsRefusedWithoutBuildingIt) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  Runtime runtime(test_device(), 1);
  TrainingSettings settings = many_passes(1 << 14);
  for (const plan::Site site : {plan::Site::resident, plan::Site::host}) {
    settings.fixed.site = site;
    settings.limits[plan::Tier::host] = 64 * kMiB;
    const HeapWatch heap;
    EXPECT_THROW(plan_training(runtime, settings), OutOfBudget) << name_of(site);
    EXPECT_LE(heap.peak(), 32 * kMiB) << name_of(site);
  }
}

TEST(PlanSize, OfMoreTasksThanPlansHaveIsRefusedByTheFlag) {
  TrainOptions options;
  options.sequence = 4;
  options.micro_batch = 1;
  options.accumulate = 65536;
  try {
    training_settings(options, small_config(), {.device = kGiB, .host = kGiB});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("--accumulate 65536: expected at most 18724 for a model of 3 blocks"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ebb::engine
