// Traces of simulations, of random programs and of one that fits on paper.
#include "plan/trace.h"

#include "plan/memory_curve.h"
#include "plan/planner.h"
#include "plan/random_work.h"
#include "plan/trace_check.h"

namespace ebb::plan {
namespace {

// Tasks that take microseconds, on lanes that share memory; and a name that needs care in JSON.
Profile machine() {
  Profile profile = rough_gpu_profile(8);
  profile.name = "a \"machine\"";
  return profile;
}

TEST(Trace, OfAPredictionKeepsItsPromises) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Workload work = random_workload(seed);
    const Choices choices = random_choices(seed, work);
    SCOPED_TRACE(describe(seed, work, choices));
    const Limits roomy = {{Tier::device, Bytes{1} << 50}, {Tier::host, Bytes{1} << 50}};
    Plan plan = plan_with(work, choices, roomy, machine());
    if (seed % 2 == 0) {  // room for little more than what must be there: addresses are shared
      plan = plan_with(work, choices,
                       {{Tier::device, plan.peak(Tier::device) * 2 / 3}, {Tier::host, 1 << 30}},
                       machine());
    }
    const Trace trace = predicted_trace(plan);
    const TraceCheck check(text_of(trace), plan, 0);
    check.expect_all();
    ASSERT_EQ(check.step_seconds().size(), 2u);
    EXPECT_NEAR(check.step_seconds().rbegin()->second, plan.prediction.step_seconds, 3e-9);
  }
}

TEST(Trace, NamesWhatATaskDoes) {
  Workload work;
  for (const char* name : {"embedding", "block 0", "head"}) work.blocks.push_back({.name = name});
  Program program;
  program.objects = {{.tier = Tier::host, .bytes = 256, .name = "chunk 12 state"},
                     {.tier = Tier::device, .bytes = 256, .name = "chunk 12 state"}};
  const auto name = [&](const Task& task) { return name_of(task, program, work); };
  EXPECT_EQ(name({.op = Op::forward, .block = 1}), "forward block 0");
  EXPECT_EQ(name({.op = Op::embed_backward, .block = 0, .names_block = false}), "embed backward");
  EXPECT_EQ(name({.op = Op::finish_gradient, .block = 2}), "finish gradient head");
  EXPECT_EQ(name({.op = Op::update, .block = 1, .chunk = 12}), "update chunk 12");
  EXPECT_EQ(name({.kind = Task::Kind::transfer,
                  .chunk = 12,
                  .uses = {{Role::source, 0}, {Role::destination, 1}}}),
            "chunk 12 state to device");
  EXPECT_EQ(name({.op = Op::norm}), "norm");
}

TEST(Trace, OfNothingIsStillJson) {
  const Plan plan{};
  const Json json = parse_json(text_of({.plan = plan, .spans = {}, .steps = 3}), "a trace");
  for (const Json& event : json.at("traceEvents")) EXPECT_EQ(event.at("ph"), "M");
}

// Two objects at one address: the second comes when the first has gone.
Program handed_on() {
  Program program;
  program.objects = {{.bytes = 256, .name = "first"},
                     {.bytes = 512, .name = "second"},
                     {.persistent = true, .bytes = 1024, .name = "always"}};
  program.tasks = {
      {.lane = Lane::compute, .uses = {{Role::work, 0, Access::write}, {Role::tables, 2}}},
      {.lane = Lane::up, .uses = {{Role::state, 1, Access::write}}, .waits = {{0, false}}}};
  program.find_lifetimes();
  return program;
}

Bytes most_of(const std::vector<MemoryChange>& changes) {
  Bytes now = 0, most = 0;
  for (const MemoryChange& change : changes) most = std::max(most, now += change.bytes);
  return most;
}

TEST(MemoryCurve, FollowsTheTasks) {
  const Program program = handed_on();
  const std::vector<TimeSpan> spans = {{0, 0, 1, 3}, {1, 0, 4, 6}, {0, 1, 5, 7}, {1, 1, 8, 9}};
  std::vector<std::pair<double, Bytes>> found;
  for (const MemoryChange& change : memory_curve(program, spans)) {
    found.emplace_back(change.seconds, change.bytes);
  }
  const std::vector<std::pair<double, Bytes>> expected = {{1, 256},  {1, 1024}, {3, -256},
                                                          {4, 512},  {5, 256},  {6, -512},
                                                          {7, -256}, {8, 512},  {9, -512}};
  EXPECT_EQ(found, expected);
}

TEST(MemoryCurve, CountsMemoryThatIsHandedOnOnce) {
  // By clocks that differ a little, the second starts before the first has ended.
  const std::vector<TimeSpan> spans = {{0, 0, 1, 3}, {1, 0, 2.9, 3.5}};
  const std::vector<MemoryChange> changes = memory_curve(handed_on(), spans);
  EXPECT_EQ(most_of(changes), 1024 + 512);
  EXPECT_EQ(changes.back().seconds, 3.5);
}

TEST(MemoryCurve, OfAStepThatBrokeOffEndsWithWhatRan) {
  const std::vector<TimeSpan> spans = {{0, 4, 1, 3}};
  EXPECT_EQ(most_of(memory_curve(handed_on(), spans)), 1024 + 256);
  EXPECT_TRUE(memory_curve(handed_on(), {}).empty());
}

}  // namespace
}  // namespace ebb::plan
