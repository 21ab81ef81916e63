// Runs a program on real lanes: each task after what it waits for, on addresses that the layout
// fixed. It knows tasks, objects and lanes, and nothing of what a task computes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/device.h"
#include "memory/arena.h"
#include "memory/carver.h"
#include "plan/layout.h"
#include "plan/program.h"
#include "plan/span.h"

namespace ebb::engine {

// Seams for tests of ordering.
struct Disturbance {
  std::uint64_t slow_lanes_seed = 0;  // not 0: lanes pause at random before tasks
  bool poison = false;                // memory is filled with NaNs when objects come and go
  // The last bytes of each object, which nobody may write: who does is named. The program's objects
  // were made so much larger than what they hold. On the cpu device alone.
  Bytes red_zone = 0;
};

// Bytes that copies really moved.
struct LinkBytes {
  std::atomic<Bytes> up{0};
  std::atomic<Bytes> down{0};
};

class Executor;

// One run of one task, as its body sees it.
class TaskRun {
 public:
  const plan::Task& task;
  std::int64_t step;
  device::Stream& stream;

  // The first `bytes` bytes of the task's object of that role; null where it has none. Bodies say
  // how much they use: that is what the measured peak is made of.
  std::byte* at(plan::Role role, Bytes bytes);
  const std::byte* read(plan::Role role, Bytes bytes) { return at(role, bytes); }
  // For bodies that cut an object into parts as they go.
  memory::Carver& carver(plan::Role role);

  void copy_up(void* to, const void* from, Bytes bytes);
  void copy_down(void* to, const void* from, Bytes bytes);

 private:
  friend class Executor;
  TaskRun(Executor& executor, const plan::Task& t, std::int64_t s, device::Stream& on)
      : task(t), step(s), stream(on), executor_(executor) {}

  struct Carved {
    plan::ObjectId object;
    memory::Carver carver;
  };
  Executor& executor_;
  std::array<Carved, 3> carved_{};
  std::size_t carved_count_ = 0;
};

class Executor {
 public:
  using Body = std::function<void(TaskRun&)>;

  // Keeps references to all of it. Makes the lanes' streams and an event for every task.
  Executor(device::Device& device, const plan::Program& program, const plan::Layout& layout,
           memory::Arena& device_arena, memory::Arena& host_arena, Body body,
           Disturbance disturbance = {});
  ~Executor();

  // Before the first step: from now on keeps when tasks ran, for the last `steps` steps and two
  // more. All memory for that is taken here.
  void keep_times(std::int64_t steps);
  // Lanes empty: those tasks of the steps kept that ran, by step and issue order, in seconds of the
  // steady clock. Steps are counted from 0 as they were issued.
  std::vector<plan::Span> spans() const;

  // Queues one more step behind those already queued. At most two steps may be under way: the host
  // lane must be past the norm of the step before.
  void issue();
  // Between steps, lanes empty: runs these tasks alone, in the issue order, and waits for them.
  // They find what is persistent as it is; what they leave elsewhere is lost.
  void run_alone(std::span<const plan::TaskId> tasks);
  // Blocks until the task has ended in the step issued last; throws the first failure of any lane.
  void wait(plan::TaskId task);
  // Blocks until all lanes are empty; throws the first failure of any lane. After a failure the
  // tasks that were still queued have been skipped.
  void drain();

  // Between steps, lanes empty: an object's memory.
  std::byte* address(plan::ObjectId object, Bytes bytes);
  device::Stream& lane(plan::Lane lane) { return *lanes_[static_cast<std::size_t>(lane)]; }
  // Between steps: a copy between any two tiers, done on return.
  void copy_now(void* to, const void* from, Bytes bytes);
  // Between steps: zeros in a range of either arena, done on return.
  void clear_now(void* to, Bytes bytes);

  const LinkBytes& link() const { return link_; }
  // How long the lane's tasks have run, of those that have ended.
  double busy_seconds(plan::Lane lane) const;
  std::int64_t steps_issued() const { return step_; }

 private:
  friend class TaskRun;
  memory::Arena& arena(plan::Tier tier) const {
    return tier == plan::Tier::device ? device_arena_ : host_arena_;
  }
  // When a task of a step ran, if it did: after a failure tasks are skipped.
  struct Times {
    device::Interval interval{};
    bool ran = false;
  };
  struct StepTimes {
    std::int64_t step = -1;
    std::vector<Times> tasks;
  };
  void queue(plan::TaskId id, Times* times);
  void run(plan::TaskId id, std::int64_t step, Times* times);
  void fail(std::exception_ptr failure, std::int64_t step);
  void rethrow_failure();
  void find_poisonable();
  void poison(plan::ObjectId object, device::Stream& stream);
  std::byte* red_zone(plan::ObjectId object) const;
  void mark_red_zone(plan::ObjectId object);
  void check_red_zone(plan::ObjectId object, const plan::Task& task) const;
  void pause(plan::TaskId id, std::int64_t step, device::Stream& stream) const;

  const plan::Program& program_;
  const plan::Layout& layout_;
  memory::Arena& device_arena_;
  memory::Arena& host_arena_;
  Body body_;
  Disturbance disturbance_;
  // Objects that no task uses any more once this task has ended (tests).
  std::vector<std::vector<plan::ObjectId>> dead_after_;

  std::int64_t step_ = 0;
  // A ring; empty where nobody asked. A lane may lag two steps behind the one that is issued, so a
  // step's place is not used again before its tasks have ended.
  std::vector<StepTimes> times_;
  LinkBytes link_;
  // Tasks of this step and later ones are skipped; those of the step before still end.
  std::atomic<std::int64_t> failed_step_{std::numeric_limits<std::int64_t>::max()};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // the first

  // By parity of the step and task: a lane can lag behind the issuing thread by most of a step, and
  // must not mistake the next step's end of a task for this one's.
  std::array<std::vector<std::unique_ptr<device::Event>>, 2> ended_;
  std::unique_ptr<device::Stream> side_;
  // Last: their threads end before what they use.
  std::array<std::unique_ptr<device::Stream>, plan::kLanes.size()> lanes_;
};

}  // namespace ebb::engine
