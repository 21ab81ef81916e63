// Pictures of simulated steps, held against the plan that they are of.
#include "plan/step_picture.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "plan/planner.h"
#include "plan/random_work.h"

namespace ebb::plan {
namespace {

constexpr double kTicks = 1e6;

TEST(StepPicture, OfAPredictionIsThePlan) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Workload work = random_workload(seed);
    const Choices choices = random_choices(seed, work);
    SCOPED_TRACE(describe(seed, work, choices));
    const Plan plan = plan_with(work, choices, {{Tier::device, 1 << 30}, {Tier::host, 1 << 30}},
                                rough_gpu_profile(8));
    const Json picture = step_picture(predicted_trace(plan));
    EXPECT_NEAR(picture.at("seconds").get<double>(), plan.prediction.step_seconds, 3e-9);
    const Topology& topology = *plan.program.topology;
    for (const Lane lane : topology.all_lanes()) {
      const Json& shown = picture.at("lanes").at(lane.index);
      EXPECT_EQ(shown.at("name"), topology[lane].name);
      const double busy = shown.at("busy_seconds").get<double>();
      EXPECT_LE(busy, plan.prediction.step_seconds * (1 + 1e-9)) << topology[lane].name;
      double ticks = 0;
      std::int64_t before = 0;
      for (const Json& span : shown.at("spans")) {
        EXPECT_GE(span[0].get<std::int64_t>(), before) << "spans of a lane overlap";
        before = span[0].get<std::int64_t>() + span[1].get<std::int64_t>();
        ticks += span[1].get<double>();
        EXPECT_LT(span[2].get<std::size_t>(), picture.at("names").size());
        EXPECT_LT(span[3].get<std::size_t>(), picture.at("kinds").size());
      }
      EXPECT_LE(before, kTicks);
      // Each span is rounded to whole ticks at both ends.
      EXPECT_NEAR(ticks / kTicks, busy / plan.prediction.step_seconds,
                  static_cast<double>(shown.at("spans").size() + 1) / kTicks);
    }
    // In the steady state all of the compute lane's work of a step is in its period.
    EXPECT_NEAR(picture.at("lanes").at(Lane::compute.index).at("busy_seconds").get<double>(),
                plan.prediction.busy_seconds[Lane::compute], 1e-6 * plan.prediction.step_seconds);
  }
}

TEST(StepPicture, MemoryIsNeverMoreThanTheArena) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Workload work = random_workload(seed);
    const Choices choices = random_choices(seed, work);
    SCOPED_TRACE(describe(seed, work, choices));
    const Plan plan = plan_with(work, choices, {{Tier::device, 1 << 30}, {Tier::host, 1 << 30}},
                                rough_gpu_profile(8));
    const Json picture = step_picture(predicted_trace(plan));
    ASSERT_EQ(picture.at("memory").size(), plan.program.topology->tiers.size());
    for (const Json& tier : picture.at("memory")) {
      Bytes persistent = 0;
      for (const Object& object : plan.program.objects) {
        if (object.persistent && (*plan.program.topology)[object.tier].name == tier.at("tier")) {
          persistent += object.bytes;
        }
      }
      for (std::size_t i = 0; i < tier.at("ticks").size(); ++i) {
        Bytes all = 0;
        for (const Json& column : tier.at("bytes")) all += column.at(i).get<Bytes>();
        EXPECT_LE(all, tier.at("arena").get<Bytes>()) << tier.at("tier") << ", moment " << i;
        EXPECT_GE(all, persistent) << tier.at("tier") << ", moment " << i;
      }
      EXPECT_EQ(tier.at("arena").get<Bytes>() + tier.at("beside").get<Bytes>(),
                plan.peak(tier.at("tier") == "device" ? Tier::device : Tier::host));
    }
  }
}

// Twenty thousand short tasks around a long one, and an object that lives for one of them; the
// short one is used from first to last.
TEST(StepPicture, JoinsWhatIsTooShortToBeSeenAndKeepsTheExtremes) {
  constexpr int kTasks = 20'000;
  Plan plan{};
  Program& program = plan.program;
  program.objects = {{.persistent = true, .bytes = 1024, .name = "always"},
                     {.bytes = 4096, .name = "spike"},
                     {.bytes = 256, .name = "short"}};
  Trace trace{.kind = Trace::Kind::measured, .plan = plan, .spans = {}, .steps = 1};
  double now = 0;
  for (int i = 0; i < kTasks; ++i) {
    Task task{.op = Op::forward, .lane = Lane::compute, .names_block = false};
    if (i % 2 == 0) task.uses = {{Role::work, i == 7000 ? 1 : 2, Access::write}};
    program.tasks.push_back(task);
    const double seconds = i == 9000 ? 0.5 : 1e-5;
    trace.spans.push_back({i, 1, now, now + seconds});
    now += seconds;
  }
  const Json picture = step_picture(trace);
  const Json& spans = picture.at("lanes").at(0).at("spans");
  EXPECT_LE(spans.size(), 8000u);
  std::int64_t tasks = 0, longest = 0;
  for (const Json& span : spans) {
    tasks += 1 + (span.size() == 5 ? span[4].get<std::int64_t>() : 0);
    longest = std::max(longest, span[1].get<std::int64_t>());
  }
  EXPECT_EQ(tasks, kTasks);
  EXPECT_NEAR(static_cast<double>(longest) / kTicks, 0.5 / now, 1e-5);
  const Json& device = picture.at("memory").at(0);
  EXPECT_LE(device.at("ticks").size(), 3001u);
  Bytes most = 0;
  for (std::size_t i = 0; i < device.at("ticks").size(); ++i) {
    Bytes all = 0;
    for (const Json& column : device.at("bytes")) all += column.at(i).get<Bytes>();
    most = std::max(most, all);
  }
  EXPECT_EQ(most, 1024 + 4096 + 256);
}

TEST(StepPicture, OfMeasuredStepsTheShortestWithNeighboursIsShown) {
  Plan plan{};
  plan.program.tasks = {{.op = Op::forward, .lane = Lane::compute, .names_block = false}};
  Trace trace{.kind = Trace::Kind::measured, .plan = plan, .spans = {}, .steps = 1};
  // Steps end at 1, 4 (after a validation), 5, 7.
  for (const auto& [step, end] : {std::pair{3, 1.0}, {4, 4.0}, {5, 5.0}, {6, 7.0}}) {
    trace.spans.push_back({0, step, end - 0.75, end});
  }
  const Json picture = step_picture(trace);
  EXPECT_EQ(picture.at("step"), 5);
  EXPECT_EQ(picture.at("seconds"), 1.0);
  EXPECT_TRUE(step_picture({.plan = plan, .spans = {}}).is_null());
}

}  // namespace
}  // namespace ebb::plan
