// The simulator on programs whose times can be found with pencil and paper.
#include "plan/simulator.h"

#include <gtest/gtest.h>

namespace ebb::plan {
namespace {

// One byte a second over the link, one operation a second on the device, tasks start for free.
Profile slow_machine() {
  return {.name = "paper",
          .matmul_flops = 1,
          .device_bytes_per_second = 1,
          .up_bytes_per_second = 1,
          .down_bytes_per_second = 1,
          .host_bytes_per_second = 1,
          .sum_bytes_per_second = 1,
          .task_seconds = 0};
}

Task seconds_on(Lane lane, double seconds, std::vector<Wait> waits = {}) {
  Task task{.lane = lane,
            .draw = lane == Lane::up     ? Draw::up
                    : lane == Lane::down ? Draw::down
                    : lane == Lane::host ? Draw::update
                                         : Draw::compute,
            .waits = std::move(waits)};
  if (lane == Lane::compute) {
    task.cost.flops = seconds;
  } else {
    task.moved = static_cast<Bytes>(seconds);
  }
  return task;
}

Simulation run(std::vector<Task> tasks) {
  Program program;
  program.tasks = std::move(tasks);
  return simulate(program, slow_machine());
}

double of(const PerLane<double>& lanes, Lane lane) { return lanes[lane]; }

TEST(Simulator, AddsUpALane) {
  const Simulation s = run({seconds_on(Lane::compute, 3), seconds_on(Lane::compute, 4)});
  EXPECT_DOUBLE_EQ(s.step_seconds, 7);
  EXPECT_DOUBLE_EQ(of(s.busy_seconds, Lane::compute), 7);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::compute), 0);
}

TEST(Simulator, HidesWhatRunsBeside) {
  // The copy of 4 s runs beside the first 5 s of computing.
  const Simulation s = run({seconds_on(Lane::up, 4), seconds_on(Lane::compute, 5),
                            seconds_on(Lane::compute, 2, {{0, false}})});
  EXPECT_DOUBLE_EQ(s.step_seconds, 7);
  EXPECT_DOUBLE_EQ(of(s.busy_seconds, Lane::up), 4);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::up), 0);
}

TEST(Simulator, ExposesWhatDoesNotFitBeside) {
  // The copy starts when the step before has freed its memory, so 9 - 5 s of it show.
  const Simulation s = run({seconds_on(Lane::up, 9, {{2, true}}), seconds_on(Lane::compute, 5),
                            seconds_on(Lane::compute, 2, {{0, false}})});
  EXPECT_DOUBLE_EQ(s.step_seconds, 11);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::up), 4);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::down), 0);
}

TEST(Simulator, IsBoundByALaneThatIsAlwaysBusy) {
  // Nothing holds the copy lane back, and still a step cannot be faster than it.
  const Simulation s = run({seconds_on(Lane::up, 9), seconds_on(Lane::compute, 2, {{0, false}})});
  EXPECT_DOUBLE_EQ(s.step_seconds, 9);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::up), 7);
}

TEST(Simulator, FindsALaneThatLagsBehindMoreWithEveryStep) {
  // What is waited for is a step old, so it takes 21 steps until the lag shows; then it stays.
  const Simulation s = run({seconds_on(Lane::up, 21), seconds_on(Lane::compute, 20, {{0, true}})});
  EXPECT_DOUBLE_EQ(s.step_seconds, 21);
}

TEST(Simulator, TellsWhatOneMoreMicroBatchTakes) {
  std::vector<Task> tasks;
  for (int micro = 0; micro < 4; ++micro) {
    tasks.push_back(seconds_on(Lane::compute, 3 + micro));
    tasks.back().ends_pass = true;
  }
  tasks.push_back(seconds_on(Lane::compute, 50));
  EXPECT_DOUBLE_EQ(run(std::move(tasks)).pass_seconds, 5);  // the third of four
}

TEST(Simulator, CarriesTheTideIntoTheNextStep) {
  // Out goes what the next step's second task needs the room of: 6 s out beside 4 s of computing.
  const Simulation s = run({seconds_on(Lane::compute, 4), seconds_on(Lane::compute, 3, {{2, true}}),
                            seconds_on(Lane::down, 6, {{1, false}})});
  EXPECT_DOUBLE_EQ(s.step_seconds, 9);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::down), 2);
}

TEST(Simulator, BlamesTheLaneThatEndedLast) {
  const Simulation s =
      run({seconds_on(Lane::up, 3, {{3, true}}), seconds_on(Lane::down, 5, {{3, true}}),
           seconds_on(Lane::host, 2, {{1, false}}),
           seconds_on(Lane::compute, 1, {{0, false}, {1, false}, {2, false}})});
  EXPECT_DOUBLE_EQ(s.step_seconds, 8);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::host), 7);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::up), 0);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::down), 0);
}

TEST(Simulator, LanesThatShareTheLinkSlowEachOther) {
  // Alone 4 s and 2 s. Together they get half their speed each until the shorter is through (4 s);
  // then the rest of the longer (2 s) goes on at full speed.
  Program program;
  program.tasks = {seconds_on(Lane::up, 4, {{2, true}}), seconds_on(Lane::down, 2, {{2, true}}),
                   seconds_on(Lane::compute, 1, {{0, false}, {1, false}})};
  Profile profile = slow_machine();
  profile.shared = {{.name = "link", .capacity = 1, .wants = {0, 1, 1}}};
  EXPECT_DOUBLE_EQ(simulate(program, profile).step_seconds, 4 + 2 + 1);
  profile.shared[0].capacity = 2;
  EXPECT_DOUBLE_EQ(simulate(program, profile).step_seconds, 4 + 1);
}

TEST(Simulator, UpdatesByTheCpuShareHostMemoryWithCopies) {
  // 2 s up beside 4 s of updates, on memory that carries three quarters of the two.
  Program program;
  program.tasks = {seconds_on(Lane::up, 2, {{2, true}}), seconds_on(Lane::host, 4, {{2, true}}),
                   seconds_on(Lane::compute, 1, {{0, false}, {1, false}})};
  Profile profile = slow_machine();
  profile.shared = {{.name = "host memory", .capacity = 1.5, .wants = {0, 1, 1, 1}}};
  const Simulation s = simulate(program, profile);
  const double together = 2 / 0.75;
  EXPECT_DOUBLE_EQ(s.step_seconds, together + (4 - 0.75 * together) + 1);
  EXPECT_DOUBLE_EQ(of(s.exposed_seconds, Lane::host), s.step_seconds - 1);
  EXPECT_DOUBLE_EQ(of(s.busy_seconds, Lane::host), 4);
}

TEST(Simulator, DividesWhatIsSharedAsItWasMeasured) {
  // All at once got 1, 2 and 3 of a memory that carries 6; alone each gets 4. Of two the weights
  // still hold, and what one does not want is the other's.
  Profile profile = slow_machine();
  profile.shared = {
      {.name = "host memory", .capacity = 6, .wants = {0, 4, 4, 4, 4}, .beside = {0, 1, 2, 3, 3}}};
  Program program;
  program.tasks = {seconds_on(Lane::up, 10, {{3, true}}), seconds_on(Lane::down, 10, {{3, true}}),
                   seconds_on(Lane::host, 10, {{3, true}}),
                   seconds_on(Lane::compute, 1, {{0, false}, {1, false}, {2, false}})};
  // Shares 1, 2, 3 of 4: the CPU is through after 40/3 s; then up has 2 and down 4 of 4.
  const double first = 10 / 0.75;
  const double down_left = 10 - first * 0.5, up_left = 10 - first * 0.25;
  const double second = down_left / 1.0;
  EXPECT_NEAR(simulate(program, profile).step_seconds,
              first + second + (up_left - second * 0.5) + 1, 1e-9);
}

TEST(Simulator, CountsWhatATaskIsMadeOf) {
  Profile profile{.name = "paper",
                  .matmul_flops = 2,
                  .device_bytes_per_second = 4,
                  .up_bytes_per_second = 5,
                  .down_bytes_per_second = 10,
                  .host_bytes_per_second = 20,
                  .sum_bytes_per_second = 40,
                  .task_seconds = 100};
  const Topology& topology = *device_and_host();
  Task task{.cost = {.flops = 6, .bytes = 8}, .moved = 20};
  EXPECT_DOUBLE_EQ(predicted_seconds(task, topology[Lane::compute], profile), 100 + 3 + 2);
  EXPECT_DOUBLE_EQ(predicted_seconds(task, topology[Lane::up], profile), 100 + 4);
  EXPECT_DOUBLE_EQ(predicted_seconds(task, topology[Lane::down], profile), 100 + 2);
  EXPECT_DOUBLE_EQ(predicted_seconds(task, topology[Lane::host], profile), 100 + 1);
  task.draw = Draw::sum;
  EXPECT_DOUBLE_EQ(predicted_seconds(task, topology[Lane::host], profile), 100 + 0.5);
  // A lane that the profile knows nothing of brings its own rate.
  EXPECT_DOUBLE_EQ(predicted_seconds(task, {.name = "tape", .bytes_per_second = 2}, profile), 110);
}

TEST(Simulator, SpansAreTheSimulationsOwn) {
  // The tide's program: out goes what the next step's second task needs the room of.
  Program program;
  program.tasks = {seconds_on(Lane::compute, 4), seconds_on(Lane::compute, 3, {{2, true}}),
                   seconds_on(Lane::down, 6, {{1, false}})};
  const std::vector<TimeSpan> spans = simulate_spans(program, slow_machine());
  ASSERT_EQ(spans.size() % 3, 0u);
  const std::int64_t last = static_cast<std::int64_t>(spans.size()) / 3 - 1;
  const auto span = [&](TaskId task, std::int64_t step) {
    for (const TimeSpan& s : spans) {
      if (s.task == task && s.step == step) return s;
    }
    ADD_FAILURE() << "no task " << task << " in step " << step;
    return TimeSpan{};
  };
  const double begin = span(0, last).start;
  EXPECT_DOUBLE_EQ(span(0, last).end, begin + 4);
  EXPECT_DOUBLE_EQ(span(1, last).start, begin + 6);
  EXPECT_DOUBLE_EQ(span(1, last).end, begin + 9);
  EXPECT_DOUBLE_EQ(span(2, last).start, begin + 9);
  EXPECT_DOUBLE_EQ(span(2, last).end, begin + 15);
  EXPECT_DOUBLE_EQ(span(1, last).end - span(1, last - 1).end,
                   simulate(program, slow_machine()).step_seconds);
}

}  // namespace
}  // namespace ebb::plan
