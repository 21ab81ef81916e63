// Addresses and waits of programs made by hand or at random.
#include "plan/layout.h"

#include <gtest/gtest.h>

#include "plan/happens_before.h"
#include "plan/program_check.h"
#include "plan/random_work.h"
#include "plan/training_program.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

ObjectId add_object(Program& program, Bytes bytes, End end = End::low) {
  program.objects.push_back({.end = end,
                             .bytes = align_up(bytes),
                             .name = fmt::format("object {}", program.objects.size())});
  return static_cast<ObjectId>(program.objects.size()) - 1;
}

void add_task(Program& program, Lane lane, std::vector<Use> uses) {
  program.tasks.push_back({.lane = lane, .uses = std::move(uses)});
}

Use writes(ObjectId id, Range range = {}) { return {Role::work, id, Access::write, range}; }
Use reads(ObjectId id, Range range = {}) { return {Role::input, id, Access::read, range}; }

TEST(Layout, OfAStackIsWhatIsAliveAtOnce) {
  // Objects come and go like brackets: low ones as a stack, high ones as another.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    Program program;
    std::vector<ObjectId> low, high;
    for (int i = 0; i < 60; ++i) {
      const bool at_low = dice.chance(0.5);
      auto& stack = at_low ? low : high;
      if (!stack.empty() && dice.chance(0.45)) {
        add_task(program, Lane::compute, {reads(stack.back())});
        stack.pop_back();
      } else {
        stack.push_back(add_object(program, dice.between(1, 5000), at_low ? End::low : End::high));
        add_task(program, Lane::compute, {writes(stack.back())});
      }
    }
    for (auto* stack : {&low, &high}) {
      while (!stack->empty()) {
        add_task(program, Lane::compute, {reads(stack->back())});
        stack->pop_back();
      }
    }
    program.find_lifetimes();
    const Layout layout = lay_out(program);
    EXPECT_EQ(layout.size_of(Tier::device), peak_alive(program, Tier::device)) << "seed " << seed;
    EXPECT_EQ(check_addresses(program, layout), "") << "seed " << seed;
  }
}

TEST(Layout, OfTrainingProgramsIsCloseToWhatIsAliveAtOnce) {
  Bytes layouts = 0, alive = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Workload work = random_workload(seed);
    Choices choices = random_choices(seed, work);
    const Program program = build_training(work, choices, {0});
    const Layout layout = lay_out(program);
    for (const Tier tier : {Tier::device, Tier::host}) {
      EXPECT_GE(layout.size_of(tier), peak_alive(program, tier)) << "seed " << seed;
      layouts += layout.size_of(tier);
      alive += peak_alive(program, tier);
    }
  }
  EXPECT_LT(static_cast<double>(layouts), 1.03 * static_cast<double>(alive));
}

TEST(Layout, IsTheSameEveryTime) {
  const Workload work = random_workload(5);
  const Program program = build_training(work, random_choices(5, work), {kMiB});
  EXPECT_EQ(lay_out(program).offsets, lay_out(program).offsets);
}

TEST(Layout, OfNothingIsEmpty) {
  Program program;
  const Layout layout = lay_out(program);
  EXPECT_EQ(layout.size_of(Tier::device), 0);
  add_waits(program, layout);
}

TEST(Waits, FollowReadsWritesAndSharedAddresses) {
  Program program;
  const ObjectId a = add_object(program, 1000);
  const ObjectId b = add_object(program, 1000);  // shares a's address
  add_task(program, Lane::compute, {writes(a)});
  add_task(program, Lane::down, {reads(a)});
  add_task(program, Lane::compute, {reads(a)});  // beside the other reader
  add_task(program, Lane::up, {writes(b)});      // after both readers of a
  add_task(program, Lane::compute, {reads(b)});
  program.find_lifetimes();
  const Layout layout = lay_out(program);
  ASSERT_EQ(layout.size_of(Tier::device), 1024);
  add_waits(program, layout);
  const auto waits = [&](std::size_t task) { return program.tasks[task].waits; };
  // The address was b's in the step before, which up wrote and compute read.
  EXPECT_EQ(waits(0), (std::vector<Wait>{{3, true}}));
  EXPECT_EQ(waits(1), (std::vector<Wait>{{0, false}}));
  EXPECT_EQ(waits(2), (std::vector<Wait>{}));
  EXPECT_EQ(waits(3), (std::vector<Wait>{{2, false}, {1, false}}));
  EXPECT_EQ(waits(4), (std::vector<Wait>{{3, false}}));

  const auto clocks = clocks_of(program);
  Clock expected;
  expected.fill(-1);
  expected[Lane::compute] = 2;
  expected[Lane::up] = 3;
  expected[Lane::down] = 1;
  EXPECT_EQ(clocks[4], expected);
}

TEST(Waits, OfPersistentObjectsReachIntoTheStepBefore) {
  Program program;
  const ObjectId weights = add_object(program, 1000);
  program.objects[0].persistent = true;
  add_task(program, Lane::compute, {reads(weights)});
  add_task(program, Lane::up, {writes(weights, {0, 500})});
  add_task(program, Lane::down, {reads(weights, {500, 500})});
  program.find_lifetimes();
  const Layout layout = lay_out(program);
  add_waits(program, layout);
  EXPECT_EQ(program.tasks[0].waits, (std::vector<Wait>{{1, true}}));
  EXPECT_EQ(program.tasks[1].waits, (std::vector<Wait>{{0, false}}));
  EXPECT_EQ(program.tasks[2].waits, (std::vector<Wait>{}));  // other bytes
}

// Programs that no builder makes: any lane uses any object, in whole or in part.
Program random_program(std::uint64_t seed) {
  Dice dice(seed);
  Program program;
  const std::int64_t tasks = dice.between(2, 40);
  for (std::int64_t t = 0; t < tasks; ++t) {
    add_task(program, dice.pick({Lane::compute, Lane::up, Lane::down, Lane::host}), {});
  }
  const std::int64_t objects = dice.between(1, 25);
  for (std::int64_t o = 0; o < objects; ++o) {
    const ObjectId id =
        add_object(program, dice.between(1, 3000), dice.chance(0.5) ? End::low : End::high);
    if (dice.chance(0.2)) program.objects.back().alignment = 1024;
    program.objects.back().persistent = dice.chance(0.2);
    program.objects.back().tier = dice.pick({Tier::device, Tier::device, Tier::host});
    const std::int64_t first = dice.between(0, tasks - 1);
    const std::int64_t last = std::min(tasks - 1, first + dice.between(0, 8));
    for (std::int64_t t = first; t <= last; ++t) {
      if (t != first && dice.chance(0.5)) continue;
      Range range;
      if (dice.chance(0.6)) {
        range.first = dice.between(0, program.objects.back().bytes - 1);
        range.bytes = dice.between(1, program.objects.back().bytes - range.first);
      }
      program.tasks[static_cast<std::size_t>(t)].uses.push_back(
          {Role::work, id, dice.chance(0.5) ? Access::write : Access::read, range});
    }
  }
  program.find_lifetimes();
  return program;
}

TEST(Waits, OrderEveryConflictOfRandomPrograms) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Program program = random_program(seed);
    const Layout layout = lay_out(program);
    ASSERT_EQ(check_addresses(program, layout), "") << "seed " << seed;
    add_waits(program, layout);
    ASSERT_EQ(check_waits(program), "") << "seed " << seed;
    ASSERT_EQ(check_races(program, layout), "") << "seed " << seed;
  }
}

TEST(Layout, UsesTheRoomThatIsWantedAndNoMoreThanThereIs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Workload work = random_workload(seed);
    const Program program = build_training(work, random_choices(seed, work), {});
    constexpr Tier device = Tier::device;
    const Bytes smallest = lay_out(program).size[device];
    Bounds rooms;
    // People give limits that are no multiple of anything.
    for (const Bytes odd : {0, 1, 234}) {
      const Bytes limit = smallest + 4 * kAlignment + odd;
      rooms[device] = {.wanted = limit, .most = limit};
      const Layout larger = lay_out(program, rooms);
      EXPECT_EQ(larger.size[device], smallest + 4 * kAlignment) << "seed " << seed;
      EXPECT_EQ(check_addresses(program, larger), "") << "seed " << seed;
    }
    const Bytes alive = peak_alive(program, Tier::device);
    rooms[device] = {.most = alive - 1};
    EXPECT_GT(lay_out(program, rooms).size[device], alive - 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ebb::plan
