// Runs programs on real lanes: each task after what it waits for, on addresses that the layout
// fixed. It knows tasks, objects and lanes, and nothing of what a computation computes; transfers
// it does itself.
//
// Several programs share the lanes and the tiers' memory: what is persistent lies in the same place
// for all of them, the rest overlays. Steps of one program overlap; between different ones the
// lanes run empty.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "base/list.h"
#include "exec/disturbance.h"
#include "exec/lanes.h"
#include "memory/carver.h"
#include "memory/space.h"
#include "plan/layout.h"
#include "plan/program.h"
#include "plan/time_span.h"

namespace ebb::exec {

class Executor;
class TaskRun;

// What a computation does. Called on its lane.
using Body = std::function<void(TaskRun&)>;

// What a run says of tasks that need not use all that was planned (Task::argument), in bytes.
using Arguments = List<Bytes>;

// A program, where its objects lie, and what its computations do.
struct Loaded {
  const plan::Program* program = nullptr;
  const plan::Layout* layout = nullptr;
  Body body{};
};

// One run of one computation, as its body sees it.
class TaskRun {
 public:
  const plan::Task& task;
  std::int64_t step;
  device::Stream& stream;
  const Arguments& arguments;

  bool has(plan::Role role) const { return task.find(role) != nullptr; }
  // The first `bytes` bytes of what the task uses in that role; null where it has none. Bodies say
  // how much they use: that is what the measured peak is made of. An object that the task only
  // reads cannot be had for writing.
  std::byte* write(plan::Role role, Bytes bytes);
  const std::byte* read(plan::Role role, Bytes bytes);
  // All that a use says, for tasks with several objects of a role. One that only reads must not be
  // written.
  std::byte* at(const plan::Use& use);
  // Cuts the object of that role into parts, for bodies that find out as they go what they write.
  memory::Carver& carver(plan::Role role);

 private:
  friend class Executor;
  TaskRun(Executor& executor, const Loaded& loaded, const plan::Task& t, std::int64_t s,
          device::Stream& on, const Arguments& with)
      : task(t), step(s), stream(on), arguments(with), executor_(executor), loaded_(loaded) {}

  struct Carved {
    const plan::Use* use = nullptr;
    memory::Carver carver{};
  };
  const plan::Use& require_writable(const plan::Use& use) const;

  Executor& executor_;
  const Loaded& loaded_;
  std::array<Carved, 4> carved_{};
  std::size_t carved_count_ = 0;
};

class Executor {
 public:
  // Keeps references to all of it. Makes the lanes and events for every task. `spaces` are the
  // tiers' memories, by tier; null for a tier that no program uses. All programs are of one
  // topology.
  Executor(device::Device& device, List<memory::Space*> spaces, List<Loaded> programs,
           Disturbance disturbance = {});
  ~Executor();

  // Before the first step: from now on keeps when tasks of the program ran, for the last `steps`
  // steps and three more. All memory for that is taken here.
  void keep_times(std::int64_t steps, std::size_t program = 0);
  // Lanes empty: no more times are kept, and their memory is free.
  void forget_times(std::size_t program = 0);
  // Lanes empty: those tasks of the steps kept that ran, by step and issue order, in seconds of the
  // steady clock. Steps are counted from 0 as they were issued.
  List<plan::TimeSpan> spans(std::size_t program = 0) const;

  // Blocks until at most one step of the program is under way: what the step before that used may
  // be used again. Where another program ran last, until the lanes are empty.
  void wait_for_room(std::size_t program = 0);
  // Queues one more step behind those already queued, when there is room.
  void issue(std::size_t program = 0, const Arguments& arguments = {});
  // Blocks until the task has ended in the step of that program issued last, or in the one before
  // that (`back` 1); throws the first failure of any lane.
  void wait(plan::TaskId task, std::size_t program = 0, std::int64_t back = 0);
  // Blocks until all lanes are empty; throws the first failure of any lane. After a failure the
  // tasks that were still queued have been skipped.
  void drain();

  // Host memory for what is read and written between steps on a tier without addresses, and at
  // most a grain more.
  static constexpr Bytes kAccessBytes = kMiB;

  // Between steps, lanes empty; of the first program's objects.
  std::byte* address(plan::ObjectId object, Bytes bytes);
  void read_now(plan::ObjectId object, Bytes first, void* to, Bytes bytes);
  void write_now(plan::ObjectId object, Bytes first, const void* from, Bytes bytes);
  void clear_now(plan::ObjectId object, Bytes first, Bytes bytes);
  // From one place of an object to another, which do not overlap, on a tier with addresses.
  void copy_now(plan::ObjectId object, Bytes from, Bytes to, Bytes bytes);

  // Bytes that transfers really moved from one tier to another, on any lane that joins them.
  Bytes moved(plan::Tier from, plan::Tier to) const;
  // The step of the first program at which a task failed first: all before it came to their ends,
  // and of those behind it some may have run. Nothing where no task did, or a lane itself failed.
  std::optional<std::int64_t> failed_step() const;
  double busy_seconds(plan::Lane lane) const { return lanes_[lane.index].busy_seconds(); }
  std::int64_t steps_issued(std::size_t program = 0) const { return programs_[program].step; }

 private:
  friend class TaskRun;
  // When a task of a step ran, if it did: after a failure tasks are skipped.
  struct Times {
    device::Interval interval{};
    bool ran = false;
  };
  struct StepTimes {
    std::int64_t step = -1;
    List<Times> tasks;
  };
  // Steps whose events are kept apart: a lane may still wait for one of the step before its own
  // while the next step is issued. issue() makes sure that no lane is further behind.
  static constexpr std::size_t kRing = 3;
  // A program with its events and how far it has come.
  struct Running {
    Loaded loaded;
    List<List<plan::TaskId>> lane_tasks;                            // by lane, in the issue order
    List<std::int64_t> place_on_lane;                               // by task
    std::array<List<std::unique_ptr<device::Event>>, kRing> ended;  // by step and task
    std::array<Arguments, kRing> arguments{};
    std::int64_t step = 0;  // the next one
    // How many tasks each lane's thread has issued, over all steps.
    plan::PerLane<std::atomic<std::int64_t>> issued{};
    List<StepTimes> times{};  // a ring; empty where nobody asked
    List<List<plan::ObjectId>> dead_after{};
  };
  // A step that was handed to a lane's thread.
  struct Order {
    Running* running = nullptr;
    std::int64_t step = 0;
    std::int64_t time = 0;
  };
  struct LaneThread;

  memory::Space& space(plan::Tier tier) const;
  void issue_lane(std::size_t lane, const Order& order);
  void queue(const Order& order, plan::TaskId id);
  void note_failure(const Order& order);
  void run(const Order& order, plan::TaskId id, Times* times);
  device::Stream& lane(plan::Lane lane) const { return lanes_[lane.index]; }
  device::Stream& side_lane() const { return lanes_[topology_.lanes.size()]; }
  void transfer(const Loaded& loaded, const plan::Task& task, const Arguments& arguments);
  void wait_for_step(Running& running, std::int64_t step);
  // Until so many tasks of the lane have been issued: their events can be waited for.
  void wait_until_issued(Running& running, plan::Lane lane, std::int64_t tasks) const;
  std::int64_t tasks_until(const Running& running, std::int64_t step, plan::TaskId id) const;
  // Any bytes of a tier that has no addresses, between steps.
  void access_now(plan::Tier tier, Bytes offset, Bytes bytes,
                  const std::function<void(std::span<std::byte>, Bytes)>& use, bool writes);
  std::byte* resolve(const Loaded& loaded, const plan::Use& use, Bytes bytes);
  Bytes touch(const Loaded& loaded, plan::ObjectId id, Bytes first, Bytes bytes);
  void check_red_zones(const Loaded& loaded, const plan::Task& task) const;
  void mark_red_zone(const Loaded& loaded, plan::ObjectId id) const;
  void poison(const Loaded& loaded, plan::ObjectId id, plan::Range range, device::Stream& stream);

  const plan::Topology& topology_;
  List<memory::Space*> spaces_;
  Disturbance disturbance_;
  std::deque<Running> programs_;
  const Running* last_ = nullptr;  // the program that was issued last
  std::int64_t time_ = 0;          // of the next issue, over all programs
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> failed_step_{kNone};
  plan::PerLane<std::atomic<Bytes>> moved_;
  Lanes lanes_;  // the topology's, and one for copies between runs
  // Last: they end before what they use. Empty where streams hold nobody up.
  List<std::unique_ptr<LaneThread>> threads_;
};

}  // namespace ebb::exec
