#include "plan/layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace ebb::plan {
namespace {

// The free ranges of an arena, by start.
class FreeList {
 public:
  explicit FreeList(Bytes size) {
    if (size > 0) ranges_[0] = size;
  }

  std::optional<Bytes> take(Bytes bytes, End end) {
    if (end == End::low) {
      for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
        if (it->second >= bytes) return cut(it, it->first, bytes);
      }
    } else {
      for (auto it = ranges_.rbegin(); it != ranges_.rend(); ++it) {
        if (it->second >= bytes) {
          return cut(std::prev(it.base()), it->first + it->second - bytes, bytes);
        }
      }
    }
    return std::nullopt;
  }

  void give_back(Bytes start, Bytes bytes) {
    auto next = ranges_.lower_bound(start);
    if (next != ranges_.end() && start + bytes == next->first) {
      bytes += next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == start) {
        previous->second += bytes;
        return;
      }
    }
    ranges_[start] = bytes;
  }

  Bytes largest() const {
    Bytes most = 0;
    for (const auto& [start, bytes] : ranges_) most = std::max(most, bytes);
    return most;
  }

 private:
  Bytes cut(std::map<Bytes, Bytes>::iterator range, Bytes at, Bytes bytes) {
    const Bytes start = range->first;
    const Bytes end = start + range->second;
    ranges_.erase(range);
    if (at > start) ranges_[start] = at - start;
    if (at + bytes < end) ranges_[at + bytes] = end - at - bytes;
    return at;
  }

  std::map<Bytes, Bytes> ranges_;
};

// The objects of a tier by the task at which they come to life and at which they go.
struct Births {
  std::vector<ObjectId> persistent;
  std::vector<std::vector<ObjectId>> born;
  std::vector<std::vector<ObjectId>> dead;
};

Births births_of(const Program& program, Tier tier) {
  Births births;
  births.born.resize(program.tasks.size());
  births.dead.resize(program.tasks.size());
  for (ObjectId id = 0; id < static_cast<ObjectId>(program.objects.size()); ++id) {
    const Object& object = program.objects[static_cast<std::size_t>(id)];
    if (object.tier != tier || object.bytes == 0) continue;
    if (object.persistent) {
      births.persistent.push_back(id);
    } else if (object.first >= 0) {
      births.born[static_cast<std::size_t>(object.first)].push_back(id);
      births.dead[static_cast<std::size_t>(object.last)].push_back(id);
    }
  }
  return births;
}

// One sweep through the step in an arena of `size`. Returns by how much the arena was too small for
// the first object that found no place; 0 when all did.
Bytes sweep(const Program& program, const Births& births, Bytes size, std::vector<Bytes>& offsets) {
  FreeList free(size);
  Bytes missing = 0;
  const auto place = [&](ObjectId id) {
    const Object& object = program.objects[static_cast<std::size_t>(id)];
    const auto at = free.take(object.bytes, object.end);
    if (at) {
      offsets[static_cast<std::size_t>(id)] = *at;
    } else {
      missing = object.bytes - free.largest();
    }
    return at.has_value();
  };
  for (const ObjectId id : births.persistent) {
    if (!place(id)) return missing;
  }
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    for (const ObjectId id : births.born[task]) {
      if (!place(id)) return missing;
    }
    for (const ObjectId id : births.dead[task]) {
      free.give_back(offsets[static_cast<std::size_t>(id)],
                     program.objects[static_cast<std::size_t>(id)].bytes);
    }
  }
  return 0;
}

// What is known of one cell of an object while walking the issue order: on each lane, the last task
// that wrote it and the last that touched it at all. Steps are counted so that a task of the step
// before is told from one of this step.
struct Moment {
  TaskId task = -1;
  int step = -1;
};
using PerLane = std::array<Moment, kLanes.size()>;

struct CellHistory {
  PerLane writers;
  PerLane users;
};

void merge(PerLane& into, const PerLane& from) {
  for (std::size_t lane = 0; lane < into.size(); ++lane) {
    if (std::pair(from[lane].step, from[lane].task) > std::pair(into[lane].step, into[lane].task)) {
      into[lane] = from[lane];
    }
  }
}

// Who used each address range last, for ranges that temporary objects share.
class AddressHistory {
 public:
  // Everything that was at [start, start + bytes) before; the range is the new object's from now
  // on.
  PerLane occupy(Bytes start, Bytes bytes) {
    split(start);
    split(start + bytes);
    PerLane before;
    auto it = ranges_.lower_bound(start);
    while (it != ranges_.end() && it->first < start + bytes) {
      merge(before, it->second.users);
      it = ranges_.erase(it);
    }
    return before;
  }

  void leave(Bytes start, Bytes bytes, const PerLane& users) {
    ranges_[start] = {start + bytes, users};
  }

 private:
  struct Range {
    Bytes end = 0;
    PerLane users;
  };

  void split(Bytes at) {
    auto it = ranges_.upper_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->first >= at || it->second.end <= at) return;
    ranges_[at] = {it->second.end, it->second.users};
    it->second.end = at;
  }

  std::map<Bytes, Range> ranges_;
};

// Walks the issue order of two steps in a row; the second time round, the first stands for the step
// before and the waits are written down.
class WaitFinder {
 public:
  WaitFinder(Program& program, const Layout& layout)
      : program_(program), layout_(layout), cells_(program.objects.size()) {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      cells_[i].resize(static_cast<std::size_t>(program.objects[i].cells));
    }
  }

  void run() {
    for (step_ = 0; step_ < 2; ++step_) {
      for (TaskId id = 0; id < static_cast<TaskId>(program_.tasks.size()); ++id) visit(id);
    }
  }

 private:
  template <class Visit>
  void for_cells(const Use& use, Visit visit) {
    auto& cells = cells_[static_cast<std::size_t>(use.object)];
    if (use.cell >= 0) return visit(cells[static_cast<std::size_t>(use.cell)]);
    for (CellHistory& cell : cells) visit(cell);
  }

  void visit(TaskId id) {
    Task& task = program_.tasks[static_cast<std::size_t>(id)];
    PerLane before;
    for (const Use& use : task.uses) {
      const Object& object = program_.objects[static_cast<std::size_t>(use.object)];
      if (!object.persistent && object.first == id) come_to_life(use.object);
      for_cells(use, [&](const CellHistory& cell) {
        merge(before, use.access == Access::write ? cell.users : cell.writers);
      });
    }
    if (step_ == 1) write_down(task, before);
    const Moment now{id, step_};
    for (const Use& use : task.uses) {
      for_cells(use, [&](CellHistory& cell) {
        // A writer comes after all before it: whoever comes after the writer need not name them.
        if (use.access == Access::write) cell = {};
        cell.users[static_cast<std::size_t>(task.lane)] = now;
        if (use.access == Access::write) cell.writers[static_cast<std::size_t>(task.lane)] = now;
      });
    }
    for (const Use& use : task.uses) {
      const Object& object = program_.objects[static_cast<std::size_t>(use.object)];
      if (!object.persistent && object.last == id) die(use.object);
    }
  }

  void come_to_life(ObjectId id) {
    const Object& object = program_.objects[static_cast<std::size_t>(id)];
    PerLane occupants;
    if (object.bytes > 0) {
      occupants = addresses_[static_cast<std::size_t>(object.tier)].occupy(
          layout_.offsets[static_cast<std::size_t>(id)], object.bytes);
    }
    // Every cell comes after whoever was there before, also those that other tasks touch first.
    for (CellHistory& cell : cells_[static_cast<std::size_t>(id)]) cell = {occupants, occupants};
  }

  void die(ObjectId id) {
    const Object& object = program_.objects[static_cast<std::size_t>(id)];
    if (object.bytes == 0) return;
    PerLane users;
    for (const CellHistory& cell : cells_[static_cast<std::size_t>(id)]) merge(users, cell.users);
    addresses_[static_cast<std::size_t>(object.tier)].leave(
        layout_.offsets[static_cast<std::size_t>(id)], object.bytes, users);
  }

  static void write_down(Task& task, const PerLane& before) {
    task.waits.clear();
    for (std::size_t lane = 0; lane < before.size(); ++lane) {
      if (before[lane].task < 0 || lane == static_cast<std::size_t>(task.lane)) continue;
      task.waits.push_back({before[lane].task, before[lane].step == 0});
    }
  }

  Program& program_;
  const Layout& layout_;
  int step_ = 0;
  std::vector<std::vector<CellHistory>> cells_;
  std::array<AddressHistory, kTiers.size()> addresses_;
};

}  // namespace

namespace {

Bytes peak_alive(const Program& program, const Births& births) {
  Bytes alive = 0;
  const auto bytes_of = [&](ObjectId id) {
    return program.objects[static_cast<std::size_t>(id)].bytes;
  };
  for (const ObjectId id : births.persistent) alive += bytes_of(id);
  Bytes peak = alive;
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    for (const ObjectId id : births.born[task]) alive += bytes_of(id);
    peak = std::max(peak, alive);
    for (const ObjectId id : births.dead[task]) alive -= bytes_of(id);
  }
  return peak;
}

}  // namespace

Bytes peak_alive(const Program& program, Tier tier) {
  return peak_alive(program, births_of(program, tier));
}

Layout lay_out(const Program& program, const Rooms& rooms) {
  Layout layout;
  layout.offsets.assign(program.objects.size(), 0);
  for (const Tier tier : kTiers) {
    const Births births = births_of(program, tier);
    // Most programs need no byte more than what is alive at once; where holes are left over, the
    // arena grows by what the object that found no place was short of, and all is placed anew.
    const Room& room = rooms[static_cast<std::size_t>(tier)];
    Bytes size = std::max(peak_alive(program, births), room.wanted);
    while (size <= room.most) {
      const Bytes missing = sweep(program, births, size, layout.offsets);
      if (missing == 0) break;
      size += missing;
    }
    layout.size[static_cast<std::size_t>(tier)] = size;
  }
  return layout;
}

void add_waits(Program& program, const Layout& layout) { WaitFinder(program, layout).run(); }

}  // namespace ebb::plan
