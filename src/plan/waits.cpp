#include "plan/waits.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace ebb::plan {
namespace {

// On each lane, the last task of some kind, of this step or of the one before. A later one is a
// larger number: all lanes are merged at once.
class LastTasks {
 public:
  void add(Lane lane, TaskId task, int step) { last_[lane.index] = step * kStep + task + 1; }
  void merge(const LastTasks& other) {
    for (std::size_t i = 0; i < kMostLanes; ++i) last_[i] = std::max(last_[i], other.last_[i]);
  }
  bool any(Lane lane) const { return last_[lane.index] > 0; }
  TaskId task(Lane lane) const { return (last_[lane.index] - 1) % kStep; }
  bool previous_step(Lane lane) const { return last_[lane.index] <= kStep; }

 private:
  static constexpr std::int32_t kStep = 1 << 29;  // more than tasks
  std::array<std::int32_t, kMostLanes> last_{};
};

// The tasks that wrote and used the bytes of one tier last, by ranges of addresses.
class ByteHistory {
 public:
  void collect(Bytes start, Bytes end, Access access, LastTasks& before) {
    for (auto it = first_at(start); it != ranges_.end() && it->first < end; ++it) {
      const Range& range = it->second;
      before.merge(access == Access::write ? range.users : range.writers);
    }
  }

  void record(Bytes start, Bytes end, Access access, Lane lane, TaskId task, int step) {
    split(start);
    split(end);
    auto it = ranges_.lower_bound(start);
    if (access == Access::write) {
      // A writer comes after all before it: a task that comes after the writer need not name them.
      Range written{.end = end};
      written.writers.add(lane, task, step);
      written.users.add(lane, task, step);
      while (it != ranges_.end() && it->first < end) it = ranges_.erase(it);
      ranges_.emplace_hint(it, start, written);
      return;
    }
    Bytes at = start;
    while (at < end) {
      if (it == ranges_.end() || it->first > at) {  // bytes that nobody has used yet
        const Bytes until = it == ranges_.end() ? end : std::min(end, it->first);
        it = ranges_.emplace_hint(it, at, Range{.end = until});
      }
      it->second.users.add(lane, task, step);
      at = it->second.end;
      ++it;
    }
  }

 private:
  struct Range {
    Bytes end = 0;
    LastTasks writers{};
    LastTasks users{};
  };

  std::map<Bytes, Range>::iterator first_at(Bytes at) {
    auto it = ranges_.upper_bound(at);
    if (it != ranges_.begin() && std::prev(it)->second.end > at) --it;
    return it;
  }

  void split(Bytes at) {
    const auto it = first_at(at);
    if (it == ranges_.end() || it->first >= at) return;
    Range behind = it->second;
    it->second.end = at;
    ranges_.emplace_hint(std::next(it), at, std::move(behind));
  }

  std::map<Bytes, Range> ranges_;
};

// Walks the issue order of two steps in a row; the second time round, the first stands for the step
// before and the waits are written down.
class WaitFinder {
 public:
  WaitFinder(Program& program, const Layout& layout)
      : program_(program), layout_(layout), tiers_(program.topology->tiers.size()) {}

  void run() {
    for (step_ = 0; step_ < 2; ++step_) {
      for (TaskId id = 0; id < program_.tasks.count(); ++id) visit(id);
    }
  }

 private:
  template <class Visit>
  void for_bytes(const Task& task, Visit visit) {
    for (const Use& use : task.uses) {
      const Range range = program_.range_of(use);
      if (range.bytes <= 0) continue;
      const Bytes start = layout_.offsets[use.object] + range.first;
      visit(tiers_[program_[use.object].tier.index], start, start + range.bytes, use.access);
    }
  }

  void visit(TaskId id) {
    Task& task = program_.tasks[id];
    LastTasks before;
    for_bytes(task, [&](ByteHistory& bytes, Bytes start, Bytes end, Access access) {
      bytes.collect(start, end, access, before);
    });
    if (step_ == 1) write_down(task, before);
    for_bytes(task, [&](ByteHistory& bytes, Bytes start, Bytes end, Access access) {
      bytes.record(start, end, access, task.lane, id, step_);
    });
  }

  void write_down(Task& task, const LastTasks& before) const {
    task.waits.clear();
    for (const Lane lane : program_.topology->all_lanes()) {
      if (!before.any(lane) || lane == task.lane) continue;
      task.waits.push_back({before.task(lane), before.previous_step(lane)});
    }
  }

  Program& program_;
  const Layout& layout_;
  int step_ = 0;
  List<ByteHistory> tiers_;
};

}  // namespace

void add_waits(Program& program, const Layout& layout) { WaitFinder(program, layout).run(); }

}  // namespace ebb::plan
