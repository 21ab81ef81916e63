// The executor on programs made by hand.
#include "exec/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "ebb/error.h"
#include "memory/arena.h"
#include "plan/route.h"
#include "plan/waits.h"

namespace ebb::exec {
namespace {

using plan::Access;
using plan::ObjectId;
using plan::Role;
using plan::Tier;

constexpr Bytes kBytes = 1024;

// A host object goes up, is doubled on the device, and comes down into another.
struct Doubling {
  plan::Program program;
  plan::Layout layout;

  explicit Doubling(bool persistent_first = false) {
    const auto add = [&](Tier tier, bool persistent, const char* name) {
      program.objects.push_back(
          {.tier = tier, .persistent = persistent, .bytes = kBytes, .name = name});
      return static_cast<ObjectId>(program.objects.size()) - 1;
    };
    const ObjectId in = add(Tier::host, true, "in");
    const ObjectId out = add(Tier::host, true, "out");
    const ObjectId there = add(Tier::device, persistent_first, "there");
    program.tasks = {
        plan::transfer_task(program, {Role::source, in, Access::read},
                            {Role::destination, there, Access::write}),
        {.op = plan::Op::forward, .block = 1, .uses = {{Role::work, there, Access::write}}},
        plan::transfer_task(program, {Role::source, there, Access::read},
                            {Role::destination, out, Access::write})};
    program.tasks[0].argument = 1;
    program.find_lifetimes();
    layout = plan::lay_out(program);
    plan::add_waits(program, layout);
  }
};

void double_all(TaskRun& run) {
  auto* numbers = reinterpret_cast<std::int32_t*>(run.write(Role::work, kBytes));
  for (std::size_t i = 0; i < kBytes / 4; ++i) numbers[i] *= 2;
}

class Machine {
 public:
  Machine(std::vector<Loaded> programs, const plan::Layout& layout, Disturbance disturbance = {})
      : device_(kMiB),
        arena_("device", device_.allocate_device(layout.size_of(Tier::device))),
        host_("host", device_.allocate_host(layout.size_of(Tier::host))),
        executor(device_, {&arena_, &host_}, std::move(programs), disturbance) {}

 private:
  device::CpuDevice device_;
  memory::Arena arena_, host_;

 public:
  Executor executor;
};

std::vector<std::int32_t> numbers_from(std::int32_t first) {
  std::vector<std::int32_t> numbers(kBytes / 4);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST(Executor, MovesAndComputes) {
  for (const bool threads : {false, true}) {
    const Doubling doubling;
    Machine machine({{&doubling.program, &doubling.layout, double_all}}, doubling.layout,
                    {.threads = threads});
    for (std::int32_t step = 0; step < 20; ++step) {
      const auto in = numbers_from(step);
      machine.executor.drain();
      machine.executor.write_now(0, 0, in.data(), kBytes);
      machine.executor.issue(0, {0, kBytes});
      machine.executor.wait(2);
      std::vector<std::int32_t> out(kBytes / 4);
      machine.executor.drain();
      machine.executor.read_now(1, 0, out.data(), kBytes);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 2 * in[i]) << "at " << i;
    }
    EXPECT_EQ(machine.executor.moved(Tier::host, Tier::device), 20 * kBytes);
    EXPECT_EQ(machine.executor.moved(Tier::device, Tier::host), 20 * kBytes);
  }
}

TEST(Executor, ARunSaysHowMuchOfATransferIsMeant) {
  const Doubling doubling;
  Machine machine({{&doubling.program, &doubling.layout, double_all}}, doubling.layout);
  for (const Bytes bytes : {Bytes{0}, Bytes{4}, kBytes / 2, kBytes, 2 * kBytes}) {
    const Bytes before = machine.executor.moved(Tier::host, Tier::device);
    machine.executor.issue(0, {0, bytes});
    machine.executor.drain();
    EXPECT_EQ(machine.executor.moved(Tier::host, Tier::device) - before, std::min(bytes, kBytes));
  }
}

TEST(Executor, ABodyMayNotWriteWhatItsTaskOnlyReads) {
  Doubling doubling;
  doubling.program.tasks[1].uses[0].access = Access::read;
  Machine machine({{&doubling.program, &doubling.layout, double_all}}, doubling.layout);
  machine.executor.issue(0, {0, kBytes});
  try {
    machine.executor.drain();
    ADD_FAILURE() << "nobody minded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("writes 'there', which it only reads"),
              std::string::npos)
        << error.what();
  }
}

// A step that fails in the middle, with threads that issue and without: the error comes out, what
// was queued behind it is skipped, and nobody waits for ever, also not in the end.
TEST(Executor, AFailureIsToldAndWhatComesBehindIsSkipped) {
  for (const bool threads : {false, true}) {
    const Doubling doubling;
    std::atomic<int> ran{0};
    Machine machine({{&doubling.program, &doubling.layout,
                      [&](TaskRun& run) {
                        ++ran;
                        if (run.step == 3) throw Error("a fault in step 3");
                        double_all(run);
                      }}},
                    doubling.layout, {.threads = threads});
    for (int step = 0; step < 6; ++step) machine.executor.issue(0, {0, kBytes});
    EXPECT_THROW(machine.executor.wait(2), Error);
    EXPECT_THROW(machine.executor.drain(), Error);
    EXPECT_LE(ran, 6);
    EXPECT_GE(ran, 4);
    machine.executor.issue(0, {0, kBytes});  // is skipped, and ends with the machine
  }
}

TEST(Executor, MoreThanWasPlannedIsAnError) {
  const Doubling doubling;
  Machine machine({{&doubling.program, &doubling.layout,
                    [](TaskRun& run) { run.write(Role::work, kBytes + 1); }}},
                  doubling.layout);
  machine.executor.issue(0, {0, kBytes});
  EXPECT_THROW(machine.executor.drain(), Error);
}

// Two programs over the same memory: the second finds what the first left in what is persistent.
TEST(Executor, ProgramsTakeTurns) {
  for (const bool threads : {false, true}) {
    const Doubling doubling;
    plan::Program halving;
    halving.objects = {doubling.program.objects[0], doubling.program.objects[1]};
    halving.tasks = {{.op = plan::Op::norm,
                      .lane = plan::Lane::host,
                      .uses = {{Role::input, 1, Access::read}, {Role::work, 0, Access::write}}}};
    halving.find_lifetimes();
    const plan::Layout layout = plan::lay_out_beside(halving, doubling.program, doubling.layout);
    ASSERT_EQ(layout.size, doubling.layout.size);
    plan::add_waits(halving, layout);
    Machine machine({{&doubling.program, &doubling.layout, double_all},
                     {&halving, &layout,
                      [](TaskRun& run) {
                        std::memcpy(run.write(Role::work, kBytes), run.read(Role::input, kBytes),
                                    kBytes);
                      }}},
                    doubling.layout, {.threads = threads});
    const auto in = numbers_from(1);
    machine.executor.write_now(0, 0, in.data(), kBytes);
    for (int turn = 0; turn < 5; ++turn) {
      machine.executor.issue(0, {0, kBytes});
      machine.executor.issue(1);
    }
    machine.executor.drain();
    std::vector<std::int32_t> out(kBytes / 4);
    machine.executor.read_now(0, 0, out.data(), kBytes);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 32 * in[i]) << "at " << i;
  }
}

// Steps are issued as fast as they can be; no lane is ever more than a step behind.
TEST(Executor, NoLaneLagsFurtherThanItsEventsReach) {
  for (const bool threads : {false, true}) {
    const Doubling doubling;
    std::atomic<std::int64_t> done{0};
    Machine machine({{&doubling.program, &doubling.layout,
                      [&](TaskRun& run) {
                        double_all(run);
                        done = run.step + 1;
                      }}},
                    doubling.layout, {.slow_lanes_seed = 5, .threads = threads});
    for (std::int64_t step = 0; step < 200; ++step) {
      machine.executor.wait_for_room();
      ASSERT_GE(done, step - 1);
      machine.executor.issue(0, {0, kBytes});
    }
    machine.executor.drain();
    EXPECT_EQ(done, 200);
  }
}

}  // namespace
}  // namespace ebb::exec
