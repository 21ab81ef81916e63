#include "plan/layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace ebb::plan {
namespace {

// The free ranges of an arena, by start. There are few at a time: a plain vector is fastest.
class FreeList {
 public:
  explicit FreeList(Bytes size) {
    if (size > 0) ranges_.push_back({0, size});
  }

  std::optional<Bytes> take(Bytes bytes, End end) {
    const auto enough = [&](const Range& range) { return range.end - range.start >= bytes; };
    if (end == End::low) {
      const auto it = std::find_if(ranges_.begin(), ranges_.end(), enough);
      if (it == ranges_.end()) return std::nullopt;
      const Bytes at = it->start;
      it->start += bytes;
      if (it->start == it->end) ranges_.erase(it);
      return at;
    }
    const auto it = std::find_if(ranges_.rbegin(), ranges_.rend(), enough);
    if (it == ranges_.rend()) return std::nullopt;
    it->end -= bytes;
    const Bytes at = it->end;
    if (it->start == it->end) ranges_.erase(std::prev(it.base()));
    return at;
  }

  void give_back(Bytes start, Bytes bytes) {
    const auto next =
        std::lower_bound(ranges_.begin(), ranges_.end(), start,
                         [](const Range& range, Bytes at) { return range.start < at; });
    const bool touches_next = next != ranges_.end() && start + bytes == next->start;
    const bool touches_last = next != ranges_.begin() && std::prev(next)->end == start;
    if (touches_last && touches_next) {
      std::prev(next)->end = next->end;
      ranges_.erase(next);
    } else if (touches_last) {
      std::prev(next)->end += bytes;
    } else if (touches_next) {
      next->start = start;
    } else {
      ranges_.insert(next, {start, start + bytes});
    }
  }

  Bytes largest() const {
    Bytes most = 0;
    for (const Range& range : ranges_) most = std::max(most, range.end - range.start);
    return most;
  }

 private:
  struct Range {
    Bytes start = 0;
    Bytes end = 0;
  };
  std::vector<Range> ranges_;
};

// The objects of a tier in the order in which they come to life, and in which they go.
struct Births {
  std::vector<ObjectId> persistent;
  std::vector<ObjectId> born;
  std::vector<ObjectId> dead;
};

Births births_of(const Program& program, Tier tier) {
  Births births;
  for (ObjectId id = 0; id < static_cast<ObjectId>(program.objects.size()); ++id) {
    const Object& object = program.objects[static_cast<std::size_t>(id)];
    if (object.tier != tier || object.bytes == 0) continue;
    if (object.persistent) {
      births.persistent.push_back(id);
    } else if (object.first >= 0) {
      births.born.push_back(id);
    }
  }
  births.dead = births.born;
  const auto sort_by = [&](std::vector<ObjectId>& ids, TaskId Object::*when) {
    std::stable_sort(ids.begin(), ids.end(), [&](ObjectId a, ObjectId b) {
      return program.objects[static_cast<std::size_t>(a)].*when <
             program.objects[static_cast<std::size_t>(b)].*when;
    });
  };
  sort_by(births.born, &Object::first);
  sort_by(births.dead, &Object::last);
  return births;
}

// Goes through the step: `place` each object as it comes to life, until one says no; `take_back`
// each whose last task is over.
template <class Place, class TakeBack>
void live_through(const Program& program, const Births& births, Place place, TakeBack take_back) {
  const auto object = [&](ObjectId id) -> const Object& {
    return program.objects[static_cast<std::size_t>(id)];
  };
  for (const ObjectId id : births.persistent) {
    if (!place(id, object(id))) return;
  }
  auto dead = births.dead.begin();
  for (const ObjectId id : births.born) {
    for (; object(*dead).last < object(id).first; ++dead) take_back(*dead, object(*dead));
    if (!place(id, object(id))) return;
  }
}

// One sweep through the step in an arena of `size`. Returns by how much the arena was too small for
// the first object that found no place; 0 when all did.
Bytes sweep(const Program& program, const Births& births, Bytes size, std::vector<Bytes>& offsets) {
  FreeList free(size);
  Bytes missing = 0;
  live_through(
      program, births,
      [&](ObjectId id, const Object& object) {
        const auto at = free.take(object.bytes, object.end);
        offsets[static_cast<std::size_t>(id)] = at.value_or(0);
        if (!at) missing = object.bytes - free.largest();
        return at.has_value();
      },
      [&](ObjectId id, const Object& object) {
        free.give_back(offsets[static_cast<std::size_t>(id)], object.bytes);
      });
  return missing;
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
  Bytes peak = 0;
  live_through(
      program, births,
      [&](ObjectId, const Object& object) {
        alive += object.bytes;
        peak = std::max(peak, alive);
        return true;
      },
      [&](ObjectId, const Object& object) { alive -= object.bytes; });
  return peak;
}

// Up to where objects lie.
Bytes extent(const Program& program, const Births& births, const std::vector<Bytes>& offsets) {
  Bytes end = 0;
  for (const auto* ids : {&births.persistent, &births.born}) {
    for (const ObjectId id : *ids) {
      const auto i = static_cast<std::size_t>(id);
      end = std::max(end, offsets[i] + program.objects[i].bytes);
    }
  }
  return end;
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
    // Objects are placed from both ends: both are aligned.
    Bytes size = std::max(peak_alive(program, births), room.wanted / kAlignment * kAlignment);
    for (int sweeps = 1; size <= room.most; ++sweeps) {
      const Bytes missing = sweep(program, births, size, layout.offsets);
      if (missing == 0) {
        size = extent(program, births, layout.offsets);
        break;
      }
      // Many small objects are short of little each: past some sweeps, half a percent at a time.
      constexpr int patience = 8;
      size += sweeps < patience ? missing : std::max(missing, align_up(size / 200));
    }
    layout.size[static_cast<std::size_t>(tier)] = size;
  }
  return layout;
}

void add_waits(Program& program, const Layout& layout) { WaitFinder(program, layout).run(); }

}  // namespace ebb::plan
