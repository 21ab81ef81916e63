#include "engine/executor.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/rng.h"
#include "ebb/error.h"
#include "plan/order.h"

namespace ebb::engine {

using plan::ObjectId;
using plan::TaskId;

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

device::StreamKind kind_of(plan::Lane lane) {
  switch (lane) {
    case plan::Lane::compute: return device::StreamKind::compute;
    case plan::Lane::up:
    case plan::Lane::down: return device::StreamKind::copy;
    case plan::Lane::host: break;
  }
  return device::StreamKind::host;
}

}  // namespace

std::byte* TaskRun::at(plan::Role role, Bytes bytes) {
  const plan::Use* use = task.find(role);
  return use == nullptr ? nullptr : executor_.address(use->object, bytes);
}

memory::Carver& TaskRun::carver(plan::Role role) {
  static thread_local memory::Carver nothing;
  const plan::Use* use = task.find(role);
  if (use == nullptr) return nothing = {};
  const plan::Object& object = executor_.program_.objects[engine::at(use->object)];
  const Bytes bytes = object.bytes - executor_.disturbance_.red_zone;
  std::byte* base =
      executor_.arena(object.tier).at(executor_.layout_.offsets[engine::at(use->object)], bytes);
  Carved& carved = carved_.at(carved_count_++);
  carved = {use->object, memory::Carver(base, bytes)};
  return carved.carver;
}

void TaskRun::copy_up(void* to, const void* from, Bytes bytes) {
  stream.copy(to, from, bytes);
  executor_.link_.up += bytes;
}

void TaskRun::copy_down(void* to, const void* from, Bytes bytes) {
  stream.copy(to, from, bytes);
  executor_.link_.down += bytes;
}

Executor::Executor(device::Device& device, const plan::Program& program, const plan::Layout& layout,
                   memory::Arena& device_arena, memory::Arena& host_arena, Body body,
                   Disturbance disturbance)
    : program_(program),
      layout_(layout),
      device_arena_(device_arena),
      host_arena_(host_arena),
      body_(std::move(body)),
      disturbance_(disturbance),
      side_(device.create_stream(device::StreamKind::copy, "side")) {
  for (auto& events : ended_) {
    for (const plan::Task& task : program.tasks) {
      events.push_back(device.create_event(kind_of(task.lane)));
    }
  }
  for (const plan::Lane lane : plan::kLanes) {
    lanes_[static_cast<std::size_t>(lane)] =
        device.create_stream(kind_of(lane), std::string(name_of(lane)));
  }
  if (disturbance_.poison) find_poisonable();
  for (ObjectId id = 0; id < static_cast<ObjectId>(program.objects.size()); ++id) {
    if (disturbance_.red_zone > 0 && program.objects[engine::at(id)].persistent) mark_red_zone(id);
  }
}

Executor::~Executor() {
  failed_step_ = 0;  // whatever is still queued is skipped
}

void Executor::keep_times(std::int64_t steps) {
  times_.assign(engine::at(steps + 2),
                {.step = -1, .tasks = std::vector<Times>(program_.tasks.size())});
}

std::vector<plan::Span> Executor::spans() const {
  const auto seconds = [](device::Interval::Time time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
  };
  std::vector<plan::Span> spans;
  for (const StepTimes& kept : times_) {
    if (kept.step < 0) continue;
    for (std::size_t id = 0; id < kept.tasks.size(); ++id) {
      const auto& [interval, ran] = kept.tasks[id];
      if (!ran || interval.stop == device::Interval::Time{}) continue;
      spans.push_back(
          {static_cast<TaskId>(id), kept.step, seconds(interval.start), seconds(interval.stop)});
    }
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const plan::Span& a, const plan::Span& b) { return a.step < b.step; });
  return spans;
}

void Executor::queue(TaskId id, Times* times) {
  auto& now = ended_[engine::at(step_ % 2)];
  auto& before = ended_[engine::at((step_ + 1) % 2)];
  const plan::Task& task = program_.tasks[engine::at(id)];
  device::Stream& lane = *lanes_[engine::at(static_cast<int>(task.lane))];
  for (const plan::Wait& wait : task.waits) {
    lane.wait(*(wait.previous_step ? before : now)[engine::at(wait.task)]);
  }
  lane.submit([this, id, step = step_, times] { run(id, step, times); },
              times == nullptr ? nullptr : &times->interval);
  lane.record(*now[engine::at(id)]);
}

void Executor::issue() {
  StepTimes* times = times_.empty() ? nullptr : &times_[engine::at(step_) % times_.size()];
  if (times != nullptr) {
    times->step = step_;
    std::fill(times->tasks.begin(), times->tasks.end(), Times{});
  }
  for (TaskId id = 0; id < static_cast<TaskId>(program_.tasks.size()); ++id) {
    queue(id, times == nullptr ? nullptr : &times->tasks[engine::at(id)]);
  }
  ++step_;
}

// The step's number stays: the next step records the same events anew. A wait for a task that is
// left out finds that task's last end, which is long past.
void Executor::run_alone(std::span<const TaskId> tasks) {
  for (const TaskId id : tasks) queue(id, nullptr);
  drain();
}

void Executor::run(TaskId id, std::int64_t step, Times* times) {
  if (step >= failed_step_) return;
  if (times != nullptr) times->ran = true;
  const plan::Task& task = program_.tasks[engine::at(id)];
  const auto lane = static_cast<std::size_t>(task.lane);
  try {
    if (disturbance_.slow_lanes_seed != 0) pause(id, step, *lanes_[lane]);
    if (disturbance_.poison) {
      for (const plan::Use& use : task.uses) {
        const plan::Object& object = program_.objects[engine::at(use.object)];
        if (!object.persistent && object.first == id) poison(use.object, *lanes_[lane]);
      }
    }
    if (disturbance_.red_zone > 0) {
      for (const plan::Use& use : task.uses) {
        const plan::Object& object = program_.objects[engine::at(use.object)];
        if (!object.persistent && object.first == id) mark_red_zone(use.object);
      }
    }
    TaskRun task_run(*this, task, step, *lanes_[lane]);
    body_(task_run);
    if (disturbance_.red_zone > 0) {
      for (const plan::Use& use : task.uses) check_red_zone(use.object, task);
    }
    for (std::size_t i = 0; i < task_run.carved_count_; ++i) {
      address(task_run.carved_[i].object, task_run.carved_[i].carver.used());
    }
    if (disturbance_.poison) {
      for (const ObjectId object : dead_after_[engine::at(id)]) poison(object, *lanes_[lane]);
    }
  } catch (...) {
    fail(std::current_exception(), step);
  }
}

void Executor::fail(std::exception_ptr failure, std::int64_t step) {
  std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::move(failure);
  failed_step_ = std::min(failed_step_.load(), step);
}

void Executor::rethrow_failure() {
  std::lock_guard lock(failure_mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Executor::wait(TaskId task) {
  try {
    ended_[engine::at((step_ - 1) % 2)][engine::at(task)]->synchronize();
  } catch (...) {
    fail(std::current_exception(), step_ - 1);
  }
  if (step_ > failed_step_) drain();
}

void Executor::drain() {
  for (const auto& lane : lanes_) {
    try {
      lane->synchronize();
    } catch (...) {
      fail(std::current_exception(), step_ - 1);
    }
  }
  rethrow_failure();
}

std::byte* Executor::address(ObjectId id, Bytes bytes) {
  const plan::Object& object = program_.objects[engine::at(id)];
  if (bytes > object.bytes - disturbance_.red_zone) {
    throw Error(fmt::format("{} on the {}: {} bytes are used, {} were planned", object.name,
                            name_of(object.tier), bytes, object.bytes));
  }
  const Bytes offset = layout_.offsets[engine::at(id)];
  memory::Arena& memory = arena(object.tier);
  memory.touch(offset, plan::align_up(bytes));
  return memory.at(offset, bytes);
}

void Executor::copy_now(void* to, const void* from, Bytes bytes) {
  side_->copy_now(to, from, bytes);
}

void Executor::clear_now(void* to, Bytes bytes) {
  side_->submit([=, this] { side_->fill(to, 0, bytes); });
  side_->synchronize();
}

double Executor::busy_seconds(plan::Lane lane) const {
  return lanes_[static_cast<std::size_t>(lane)]->busy_seconds();
}

void Executor::find_poisonable() {
  dead_after_.resize(program_.tasks.size());
  const std::vector<plan::Clock> clocks = plan::clocks_of(program_);
  std::vector<plan::Clock> users(program_.objects.size(), plan::Clock{});
  for (auto& clock : users) clock.fill(-1);
  for (TaskId id = 0; id < static_cast<TaskId>(program_.tasks.size()); ++id) {
    const plan::Task& task = program_.tasks[engine::at(id)];
    for (const plan::Use& use : task.uses) {
      users[engine::at(use.object)][static_cast<std::size_t>(task.lane)] = id;
    }
  }
  // Only where the last task in the issue order is known to come after all others that use it.
  for (ObjectId i = 0; i < static_cast<ObjectId>(program_.objects.size()); ++i) {
    const plan::Object& object = program_.objects[engine::at(i)];
    if (object.persistent || object.last < 0) continue;
    bool after_all = true;
    for (std::size_t lane = 0; lane < plan::kLanes.size(); ++lane) {
      const TaskId user = users[engine::at(i)][lane];
      after_all =
          after_all && (user == object.last || user <= clocks[engine::at(object.last)][lane]);
    }
    if (after_all) dead_after_[engine::at(object.last)].push_back(i);
  }
}

void Executor::poison(ObjectId id, device::Stream& stream) {
  const plan::Object& object = program_.objects[engine::at(id)];
  std::byte* data = arena(object.tier).at(layout_.offsets[engine::at(id)], object.bytes);
  stream.fill(data, 0xff, object.bytes);
}

namespace {

constexpr std::byte kRedZone{0xa5};

}  // namespace

std::byte* Executor::red_zone(ObjectId id) const {
  const plan::Object& object = program_.objects[engine::at(id)];
  return arena(object.tier)
      .at(layout_.offsets[engine::at(id)] + object.bytes - disturbance_.red_zone,
          disturbance_.red_zone);
}

void Executor::mark_red_zone(ObjectId id) {
  if (program_.objects[engine::at(id)].bytes == 0) return;
  std::fill_n(red_zone(id), disturbance_.red_zone, kRedZone);
}

void Executor::check_red_zone(ObjectId id, const plan::Task& task) const {
  const plan::Object& object = program_.objects[engine::at(id)];
  if (object.bytes == 0) return;
  const std::byte* zone = red_zone(id);
  for (Bytes i = 0; i < disturbance_.red_zone; ++i) {
    if (zone[i] == kRedZone) continue;
    throw Error(
        fmt::format("{} on the {}: byte {} behind its end was written, seen after the task "
                    "'{}' of block {}",
                    object.name, name_of(object.tier), i, name_of(task.op), task.block));
  }
}

void Executor::pause(TaskId id, std::int64_t step, device::Stream& stream) const {
  const CounterRng rng(disturbance_.slow_lanes_seed, static_cast<std::uint64_t>(step));
  const double u = rng.uniform(static_cast<std::uint64_t>(id));
  // Most tasks start at once, a few are late by up to a millisecond.
  if (u > 0.9) stream.pause(static_cast<std::int64_t>((u - 0.9) * 1e4));
}

}  // namespace ebb::engine
