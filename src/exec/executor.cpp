#include "exec/executor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::exec {

using plan::ObjectId;
using plan::TaskId;

namespace {

// Which of the events and arguments of the last few steps are a step's.
std::size_t slot(std::int64_t step, std::size_t ring) { return to_size(step) % ring; }

constexpr std::byte kRedZone{0xa5};

// Only then does the task come after the users that the object's last bytes had before.
bool reaches_end(const plan::Program& program, const plan::Use& use) {
  const plan::Range range = program.range_of(use);
  return range.first + range.bytes == program[use.object].bytes;
}

bool is_marked(const plan::Program& program, ObjectId id) {
  const plan::Object& object = program[id];
  if (object.persistent) return true;
  const auto& uses = program.tasks[object.first].uses;
  return std::any_of(uses.begin(), uses.end(), [&](const plan::Use& use) {
    return use.object == id && reaches_end(program, use);
  });
}

// What a lane's stream is for: work of the device, copies over a link of the device, or work of the
// CPU, which reads and writes what has no addresses, and what crosses the network, too.
device::StreamKind stream_kind(const plan::LaneInfo& lane) {
  if (lane.kind == plan::LaneKind::compute) return device::StreamKind::compute;
  const bool of_device = lane.from == plan::Tier::device || lane.to == plan::Tier::device;
  const bool by_cpu = lane.kind == plan::LaneKind::cpu || lane.kind == plan::LaneKind::network;
  if (by_cpu || !of_device) return device::StreamKind::host;
  return lane.traffic == plan::Traffic::express ? device::StreamKind::express
                                                : device::StreamKind::copy;
}

List<Lanes::Lane> lanes_of(const plan::Topology& topology) {
  List<Lanes::Lane> lanes;
  for (const plan::LaneInfo& lane : topology.lanes) lanes.push_back({stream_kind(lane), lane.name});
  lanes.push_back({device::StreamKind::copy, "side"});
  return lanes;
}

// The share of the tasks that are late, where lanes are slow.
constexpr double kLateShare = 0.1;

}  // namespace

// Issues the tasks of one lane. A driver's queue holds about a thousand entries; a thread that
// submits to a full one waits, and must not hold up the other lanes.
struct Executor::LaneThread {
  LaneThread(Executor& executor, std::size_t lane)
      : thread([this, &executor, lane] { run(executor, lane); }) {}
  ~LaneThread() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  void push(const Order& order) {
    {
      std::lock_guard lock(mutex);
      orders.push_back(order);
    }
    changed.notify_all();
  }

  // Until all that was pushed has been issued.
  void wait_until_idle() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return orders.empty(); });
  }

  void run(Executor& executor, std::size_t lane) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || !orders.empty(); });
      if (orders.empty()) return;
      const Order order = orders.front();
      lock.unlock();
      executor.issue_lane(lane, order);
      lock.lock();
      orders.pop_front();
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Order> orders;  // the first is under way
  bool stopping = false;
  std::thread thread;
};

const plan::Use& TaskRun::require_writable(const plan::Use& use) const {
  if (use.access == plan::Access::write) return use;
  throw Error(fmt::format("the task '{}' of block {} writes '{}', which it only reads",
                          name_of(task.op), task.block, (*loaded_.program)[use.object].name));
}

std::byte* TaskRun::write(plan::Role role, Bytes bytes) {
  const plan::Use* use = task.find(role);
  return use == nullptr ? nullptr : executor_.resolve(loaded_, require_writable(*use), bytes);
}

const std::byte* TaskRun::read(plan::Role role, Bytes bytes) {
  const plan::Use* use = task.find(role);
  return use == nullptr ? nullptr : executor_.resolve(loaded_, *use, bytes);
}

std::byte* TaskRun::at(const plan::Use& use) {
  return executor_.resolve(loaded_, use, loaded_.program->range_of(use).bytes);
}

memory::Carver& TaskRun::carver(plan::Role role) {
  static thread_local memory::Carver nothing;
  const plan::Use* use = task.find(role);
  if (use == nullptr) return nothing = {};
  const Bytes bytes =
      loaded_.program->range_of(require_writable(*use)).bytes - executor_.disturbance_.red_zone;
  const plan::Object& object = (*loaded_.program)[use->object];
  std::byte* base = executor_.space(object.tier)
                        .at(loaded_.layout->offsets[use->object] + use->range.first, bytes);
  Carved& carved = carved_.at(carved_count_++);
  carved = {use, memory::Carver(base, bytes)};
  return carved.carver;
}

Executor::Executor(device::Device& device, List<memory::Space*> spaces, List<Loaded> programs,
                   Disturbance disturbance)
    : topology_(*programs.at(0).program->topology),
      spaces_(std::move(spaces)),
      disturbance_(disturbance),
      lanes_(device, lanes_of(topology_)) {
  for (Loaded& loaded : programs) {
    Running& running = programs_.emplace_back();
    running.loaded = std::move(loaded);
    const plan::Program& program = *running.loaded.program;
    running.lane_tasks.resize(topology_.lanes.size());
    for (TaskId id = 0; id < program.tasks.count(); ++id) {
      auto& of_lane = running.lane_tasks[program.tasks[id].lane.index];
      running.place_on_lane.push_back(of_lane.count());
      of_lane.push_back(id);
      for (auto& events : running.ended) {
        events.push_back(device.create_event(stream_kind(topology_[program.tasks[id].lane])));
      }
    }
    if (disturbance_.poison) running.dead_after = dead_after(program);
    for (ObjectId id = 0; id < program.objects.count(); ++id) {
      if (disturbance_.red_zone > 0 && program[id].persistent) mark_red_zone(running.loaded, id);
    }
  }
  if (!disturbance_.threads && !device.holds_up()) return;
  for (std::size_t lane = 0; lane < topology_.lanes.size(); ++lane) {
    threads_.push_back(std::make_unique<LaneThread>(*this, lane));
  }
}

Executor::~Executor() { lanes_.abandon(); }

memory::Space& Executor::space(plan::Tier tier) const { return *spaces_.at(tier.index); }

void Executor::keep_times(std::int64_t steps, std::size_t program) {
  Running& running = programs_.at(program);
  running.times.assign(steps + 3,
                       {.step = -1, .tasks = List<Times>(running.loaded.program->tasks.size())});
}

void Executor::forget_times(std::size_t program) { programs_.at(program).times = {}; }

List<plan::TimeSpan> Executor::spans(std::size_t program) const {
  const auto seconds = [](device::Interval::Time time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
  };
  List<plan::TimeSpan> spans;
  for (const StepTimes& kept : programs_.at(program).times) {
    if (kept.step < 0) continue;
    for (std::size_t id = 0; id < kept.tasks.size(); ++id) {
      const auto& [interval, ran] = kept.tasks[id];
      if (!ran || interval.stop == device::Interval::Time{}) continue;
      spans.push_back(
          {static_cast<TaskId>(id), kept.step, seconds(interval.start), seconds(interval.stop)});
    }
  }
  std::stable_sort(
      spans.begin(), spans.end(),
      [](const plan::TimeSpan& a, const plan::TimeSpan& b) { return a.step < b.step; });
  return spans;
}

void Executor::wait_for_room(std::size_t program) {
  Running& running = programs_.at(program);
  if (last_ != nullptr && last_ != &running) return drain();
  if (running.step >= 2) wait_for_step(running, running.step - 2);
}

// Until the step's last task on every lane has ended.
void Executor::wait_for_step(Running& running, std::int64_t step) {
  for (std::size_t lane = 0; lane < topology_.lanes.size(); ++lane) {
    const auto& tasks = running.lane_tasks[lane];
    if (tasks.empty()) continue;
    wait_until_issued(running, plan::Lane{static_cast<std::uint8_t>(lane)},
                      tasks_until(running, step, tasks.back()));
    try {
      running.ended[slot(step, kRing)][tasks.back()]->synchronize();
    } catch (...) {
      lanes_.fail(std::current_exception(), time_ - 1);
    }
  }
}

std::int64_t Executor::tasks_until(const Running& running, std::int64_t step, TaskId id) const {
  const plan::Lane lane = running.loaded.program->tasks[id].lane;
  const auto count = static_cast<std::int64_t>(running.lane_tasks[lane.index].size());
  return step * count + running.place_on_lane[id] + 1;
}

void Executor::wait_until_issued(Running& running, plan::Lane lane, std::int64_t tasks) const {
  if (threads_.empty()) return;  // the calling thread has issued them
  auto& issued = running.issued[lane];
  for (std::int64_t now = issued.load(); now < tasks; now = issued.load()) issued.wait(now);
}

void Executor::issue(std::size_t program, const Arguments& arguments) {
  wait_for_room(program);
  Running& running = programs_.at(program);
  const Order order{&running, running.step, time_};
  running.arguments[slot(order.step, kRing)] = arguments;
  if (!running.times.empty()) {
    StepTimes& times = running.times[slot(order.step, running.times.size())];
    times.step = order.step;
    std::fill(times.tasks.begin(), times.tasks.end(), Times{});
  }
  last_ = &running;
  ++running.step;
  ++time_;
  if (threads_.empty()) {
    const auto count = static_cast<TaskId>(running.loaded.program->tasks.size());
    for (TaskId id = 0; id < count; ++id) queue(order, id);
    return;
  }
  for (const auto& thread : threads_) thread->push(order);
}

// An event can be waited for once it has been recorded: the lanes' threads follow each other in
// that. Waits point backward in the issue order, so one of them can always go on.
void Executor::issue_lane(std::size_t lane, const Order& order) {
  Running& running = *order.running;
  auto& issued = running.issued[plan::Lane{static_cast<std::uint8_t>(lane)}];
  for (const TaskId id : running.lane_tasks[lane]) {
    for (const plan::Wait& wait : running.loaded.program->tasks[id].waits) {
      const std::int64_t step = order.step - (wait.previous_step ? 1 : 0);
      const plan::Lane other = running.loaded.program->tasks[wait.task].lane;
      wait_until_issued(running, other, tasks_until(running, step, wait.task));
    }
    queue(order, id);
    ++issued;
    issued.notify_all();
  }
}

void Executor::queue(const Order& order, TaskId id) {
  Running& running = *order.running;
  const plan::Task& task = running.loaded.program->tasks[id];
  device::Stream& lane = this->lane(task.lane);
  const auto events = [&](std::int64_t step) -> auto& { return running.ended[slot(step, kRing)]; };
  Times* times = nullptr;
  if (!running.times.empty()) {
    times = &running.times[slot(order.step, running.times.size())].tasks[id];
  }
  try {
    for (const plan::Wait& wait : task.waits) {
      if (wait.previous_step && order.step == 0) continue;
      lane.wait(*events(order.step - (wait.previous_step ? 1 : 0))[wait.task]);
    }
    lanes_.submit(
        lane, order.time, [this, order, id, times] { run(order, id, times); },
        times == nullptr ? nullptr : &times->interval);
    lane.record(*events(order.step)[id]);
  } catch (...) {
    note_failure(order);
    lanes_.fail(std::current_exception(), order.time);
    if (threads_.empty()) throw;
  }
}

void Executor::run(const Order& order, TaskId id, Times* times) {
  if (times != nullptr) times->ran = true;
  Running& running = *order.running;
  const Loaded& loaded = running.loaded;
  const plan::Task& task = loaded.program->tasks[id];
  device::Stream& stream = lane(task.lane);
  const Arguments& arguments = running.arguments[slot(order.step, kRing)];
  try {
    pause_at_random(stream, disturbance_.slow_lanes_seed, static_cast<std::uint64_t>(order.step),
                    static_cast<std::uint64_t>(id), kLateShare);
    for (const plan::Use& use : task.uses) {
      const plan::Object& object = (*loaded.program)[use.object];
      if (object.persistent || object.first != id) continue;
      if (disturbance_.poison) poison(loaded, use.object, loaded.program->range_of(use), stream);
      if (disturbance_.red_zone > 0 && reaches_end(*loaded.program, use)) {
        mark_red_zone(loaded, use.object);
      }
    }
    if (task.is_transfer()) {
      transfer(loaded, task, arguments);
    } else {
      TaskRun task_run(*this, loaded, task, order.step, stream, arguments);
      loaded.body(task_run);
      for (std::size_t i = 0; i < task_run.carved_count_; ++i) {
        resolve(loaded, *task_run.carved_[i].use, task_run.carved_[i].carver.used());
      }
    }
    if (disturbance_.red_zone > 0) check_red_zones(loaded, task);
    // Of the object's other bytes others may have made something new already.
    if (disturbance_.poison) {
      for (const plan::Use& use : task.uses) {
        const auto& dead = running.dead_after[id];
        if (std::find(dead.begin(), dead.end(), use.object) == dead.end()) continue;
        poison(loaded, use.object, loaded.program->range_of(use), stream);
      }
    }
  } catch (...) {
    note_failure(order);
    throw;
  }
}

// What fails in another program fails before the first one's next step.
void Executor::note_failure(const Order& order) {
  const bool first = order.running == &programs_.front();
  const std::int64_t step = first ? order.step : programs_.front().step;
  std::int64_t now = failed_step_;
  while (step < now && !failed_step_.compare_exchange_weak(now, step)) {
  }
}

std::optional<std::int64_t> Executor::failed_step() const {
  const std::int64_t step = failed_step_;
  return step == kNone ? std::nullopt : std::optional(step);
}

void Executor::transfer(const Loaded& loaded, const plan::Task& task, const Arguments& arguments) {
  const plan::Use& from = *task.find(plan::Role::source);
  const plan::Use& to = *task.find(plan::Role::destination);
  const plan::Tier source = (*loaded.program)[from.object].tier;
  const plan::Tier destination = (*loaded.program)[to.object].tier;
  const Bytes bytes =
      task.argument < 0 ? task.moved : std::min(task.moved, arguments.at(to_size(task.argument)));
  const auto begin = [&](int offset) { return offset < 0 ? 0 : arguments.at(to_size(offset)); };
  const Bytes read_at =
      touch(loaded, from.object, from.range.first + begin(task.source_offset), bytes);
  const Bytes write_at =
      touch(loaded, to.object, to.range.first + begin(task.destination_offset), bytes);
  memory::Space& a = space(source);
  memory::Space& b = space(destination);
  if (!topology_[source].addressable) {
    a.read(read_at, b.at(write_at, bytes), bytes);
  } else if (!topology_[destination].addressable) {
    b.write(write_at, a.at(read_at, bytes), bytes);
  } else {
    lane(task.lane).copy(b.at(write_at, bytes), a.at(read_at, bytes), bytes);
  }
  moved_[task.lane] += bytes;
}

void Executor::wait(TaskId task, std::size_t program, std::int64_t back) {
  Running& running = programs_.at(program);
  const std::int64_t step = running.step - 1 - back;
  wait_until_issued(running, running.loaded.program->tasks[task].lane,
                    tasks_until(running, step, task));
  try {
    running.ended[slot(step, kRing)][task]->synchronize();
  } catch (...) {
    lanes_.fail(std::current_exception(), time_ - 1);
  }
  if (lanes_.failed(time_ - 1)) drain();
}

void Executor::drain() {
  for (const auto& thread : threads_) thread->wait_until_idle();
  lanes_.drain(time_ - 1);
}

Bytes Executor::touch(const Loaded& loaded, ObjectId id, Bytes first, Bytes bytes) {
  const plan::Object& object = (*loaded.program)[id];
  if (first + bytes > object.bytes - disturbance_.red_zone) {
    throw Error(fmt::format("{} on the {}: {} bytes are used, {} were planned", object.name,
                            topology_[object.tier].name, first + bytes, object.bytes));
  }
  const Bytes offset = loaded.layout->offsets[id];
  space(object.tier).touch(offset, plan::align_up(first + bytes, object.alignment));
  return offset + first;
}

std::byte* Executor::resolve(const Loaded& loaded, const plan::Use& use, Bytes bytes) {
  const plan::Range range = loaded.program->range_of(use);
  if (bytes > range.bytes) {
    throw Error(fmt::format(
        "{} on the {}: {} bytes are used, {} were planned", (*loaded.program)[use.object].name,
        topology_[(*loaded.program)[use.object].tier].name, bytes, range.bytes));
  }
  const Bytes offset = touch(loaded, use.object, range.first, bytes);
  return space((*loaded.program)[use.object].tier).at(offset, bytes);
}

std::byte* Executor::address(ObjectId id, Bytes bytes) {
  const Loaded& first = programs_[0].loaded;
  return space((*first.program)[id].tier).at(touch(first, id, 0, bytes), bytes);
}

// Whole grains alone can be read and written there. Of one that is used in part the rest is kept.
void Executor::access_now(plan::Tier tier, Bytes offset, Bytes bytes,
                          const std::function<void(std::span<std::byte>, Bytes)>& use,
                          bool writes) {
  const Bytes grain = topology_[tier].alignment;
  const Bytes piece = plan::align_up(kAccessBytes, grain);
  const auto free = [&](std::byte* memory) {
    if (space(tier).stalled()) return;  // it may still be written
    ::operator delete(memory, std::align_val_t(to_size(grain)));
  };
  const std::unique_ptr<std::byte, decltype(free)> memory(
      static_cast<std::byte*>(::operator new(to_size(piece), std::align_val_t(to_size(grain)))),
      free);
  for (Bytes start = offset / grain * grain; start < offset + bytes; start += piece) {
    const Bytes whole = std::min(piece, plan::align_up(offset + bytes - start, grain));
    const Bytes first = std::max(start, offset);
    const Bytes end = std::min(start + whole, offset + bytes);
    if (!writes) {
      space(tier).read(start, memory.get(), whole);
    } else {
      if (first != start) space(tier).read(start, memory.get(), grain);
      const Bytes last = start + whole - grain;
      if (end != start + whole && (last != start || first == start)) {
        space(tier).read(last, memory.get() + (last - start), grain);
      }
    }
    use({memory.get() + (first - start), to_size(end - first)}, first - offset);
    if (writes) space(tier).write(start, memory.get(), whole);
  }
}

void Executor::read_now(ObjectId id, Bytes first, void* to, Bytes bytes) {
  const Loaded& loaded = programs_[0].loaded;
  const plan::Tier tier = (*loaded.program)[id].tier;
  const Bytes offset = touch(loaded, id, first, bytes);
  if (topology_[tier].addressable) {
    return side_lane().copy_now(to, space(tier).at(offset, bytes), bytes);
  }
  access_now(
      tier, offset, bytes,
      [&](std::span<std::byte> part, Bytes done) {
        std::copy(part.begin(), part.end(), static_cast<std::byte*>(to) + done);
      },
      false);
}

void Executor::write_now(ObjectId id, Bytes first, const void* from, Bytes bytes) {
  const Loaded& loaded = programs_[0].loaded;
  const plan::Tier tier = (*loaded.program)[id].tier;
  const Bytes offset = touch(loaded, id, first, bytes);
  if (topology_[tier].addressable) {
    return side_lane().copy_now(space(tier).at(offset, bytes), from, bytes);
  }
  access_now(
      tier, offset, bytes,
      [&](std::span<std::byte> part, Bytes done) {
        std::copy_n(static_cast<const std::byte*>(from) + done, part.size(), part.begin());
      },
      true);
}

void Executor::clear_now(ObjectId id, Bytes first, Bytes bytes) {
  const Loaded& loaded = programs_[0].loaded;
  const plan::Tier tier = (*loaded.program)[id].tier;
  const Bytes offset = touch(loaded, id, first, bytes);
  if (topology_[tier].addressable) {
    return Lanes::clear_now(side_lane(), space(tier).at(offset, bytes), bytes);
  }
  // The space knows best how; what is left of its first and last grain is written.
  const Bytes grain = topology_[tier].alignment;
  const auto zeros = [&](Bytes from, Bytes end) {
    if (from >= end) return;
    access_now(
        tier, from, end - from,
        [](std::span<std::byte> part, Bytes) { std::fill(part.begin(), part.end(), std::byte{}); },
        true);
  };
  const Bytes end = offset + bytes;
  const Bytes whole = plan::align_up(offset, grain), whole_end = end / grain * grain;
  if (whole >= whole_end) return zeros(offset, end);
  zeros(offset, whole);
  space(tier).clear(whole, whole_end - whole);
  zeros(whole_end, end);
}

void Executor::copy_now(ObjectId id, Bytes from, Bytes to, Bytes bytes) {
  const Loaded& loaded = programs_[0].loaded;
  memory::Space& tier = space((*loaded.program)[id].tier);
  const Bytes read_at = touch(loaded, id, from, bytes), write_at = touch(loaded, id, to, bytes);
  side_lane().copy_now(tier.at(write_at, bytes), tier.at(read_at, bytes), bytes);
}

Bytes Executor::moved(plan::Tier from, plan::Tier to) const {
  Bytes bytes = 0;
  for (const plan::Lane lane : topology_.all_lanes()) {
    const plan::LaneInfo& info = topology_[lane];
    if (info.kind == plan::LaneKind::transfer && info.from == from && info.to == to) {
      bytes += moved_[lane];
    }
  }
  return bytes;
}

void Executor::poison(const Loaded& loaded, ObjectId id, plan::Range range,
                      device::Stream& stream) {
  const plan::Object& object = (*loaded.program)[id];
  if (!topology_[object.tier].addressable) return;
  std::byte* data = space(object.tier).at(loaded.layout->offsets[id] + range.first, range.bytes);
  stream.fill(data, 0xff, range.bytes);
}

void Executor::mark_red_zone(const Loaded& loaded, ObjectId id) const {
  const plan::Object& object = (*loaded.program)[id];
  if (object.bytes == 0 || !topology_[object.tier].addressable) return;
  const Bytes end = loaded.layout->offsets[id] + object.bytes;
  std::fill_n(space(object.tier).at(end - disturbance_.red_zone, disturbance_.red_zone),
              disturbance_.red_zone, kRedZone);
}

void Executor::check_red_zones(const Loaded& loaded, const plan::Task& task) const {
  for (const plan::Use& use : task.uses) {
    const plan::Object& object = (*loaded.program)[use.object];
    const bool addressable = topology_[object.tier].addressable;
    if (object.bytes == 0 || !addressable || !is_marked(*loaded.program, use.object)) continue;
    // What is behind the bytes of a task that uses others alone may have been handed on by now.
    if (!object.persistent && !reaches_end(*loaded.program, use)) continue;
    const Bytes end = loaded.layout->offsets[use.object] + object.bytes;
    const std::byte* zone =
        space(object.tier).at(end - disturbance_.red_zone, disturbance_.red_zone);
    for (Bytes i = 0; i < disturbance_.red_zone; ++i) {
      if (zone[i] == kRedZone) continue;
      throw Error(
          fmt::format("{} on the {}: byte {} behind its end was written, seen after the task "
                      "'{}' of block {}",
                      object.name, topology_[object.tier].name, i, name_of(task.op), task.block));
    }
  }
}

}  // namespace ebb::exec
