// An independent reading of a program: it knows nothing of how layouts and waits are found, and
// checks what they must guarantee. Each check returns the first thing that is wrong, or nothing.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "plan/layout.h"
#include "plan/program.h"
#include "plan/waits.h"

namespace ebb::plan {

inline std::string name_task(const Program& program, TaskId id) {
  const Task& task = program.tasks[static_cast<std::size_t>(id)];
  return fmt::format("task {} ({} on {}, block {}, micro {}, chunk {})", id, name_of(task.op),
                     (*program.topology)[task.lane].name, task.block, task.micro, task.chunk);
}

inline std::string name_object(const Program& program, ObjectId id) {
  const Object& object = program.objects[static_cast<std::size_t>(id)];
  return fmt::format("object {} '{}' ({} bytes, tasks {} to {})", id, object.name, object.bytes,
                     object.first, object.last);
}

inline bool share_bytes(const Program& program, const Layout& layout, ObjectId a, ObjectId b) {
  const Object& x = program.objects[static_cast<std::size_t>(a)];
  const Object& y = program.objects[static_cast<std::size_t>(b)];
  const Bytes x_at = layout.offsets[static_cast<std::size_t>(a)];
  const Bytes y_at = layout.offsets[static_cast<std::size_t>(b)];
  return x.tier == y.tier && x_at < y_at + y.bytes && y_at < x_at + x.bytes && x.bytes > 0 &&
         y.bytes > 0;
}

// Objects lie aligned within their arenas, and those alive at one task do not overlap.
inline std::string check_addresses(const Program& program, const Layout& layout) {
  const auto count = static_cast<ObjectId>(program.objects.size());
  for (ObjectId a = 0; a < count; ++a) {
    const Object& x = program.objects[static_cast<std::size_t>(a)];
    const Bytes at = layout.offsets[static_cast<std::size_t>(a)];
    if (at < 0 || at + x.bytes > layout.size_of(x.tier) || at % x.alignment != 0 ||
        x.bytes % kAlignment != 0) {
      return fmt::format("{} at {} is not aligned within its arena of {}", name_object(program, a),
                         at, layout.size_of(x.tier));
    }
    for (ObjectId b = 0; b < a; ++b) {
      const Object& y = program.objects[static_cast<std::size_t>(b)];
      const bool used = (x.persistent || x.first >= 0) && (y.persistent || y.first >= 0);
      const bool together =
          x.persistent || y.persistent || (x.first <= y.held && y.first <= x.held);
      if (used && together && share_bytes(program, layout, a, b)) {
        return fmt::format("{} overlaps {}", name_object(program, a), name_object(program, b));
      }
    }
  }
  return {};
}

// Lifetimes are what the uses say, ranges are within their objects, and a role is one object's but
// for what crosses the network.
inline std::string check_uses(const Program& program) {
  std::vector<std::pair<TaskId, TaskId>> seen(program.objects.size(), {-1, -1});
  for (TaskId t = 0; t < static_cast<TaskId>(program.tasks.size()); ++t) {
    std::map<Role, ObjectId> roles;
    const Lane lane = program.tasks[static_cast<std::size_t>(t)].lane;
    const bool crosses = (*program.topology)[lane].kind == LaneKind::network;
    for (const Use& use : program.tasks[static_cast<std::size_t>(t)].uses) {
      if (use.object < 0 || use.object >= static_cast<ObjectId>(program.objects.size())) {
        return name_task(program, t) + " uses an object that does not exist";
      }
      const Object& object = program.objects[static_cast<std::size_t>(use.object)];
      const Range range = program.range_of(use);
      if (range.first < 0 || range.bytes <= 0 || range.first + range.bytes > object.bytes ||
          (roles.try_emplace(use.role, use.object).first->second != use.object && !crosses)) {
        return fmt::format("{}: a bad use of {}", name_task(program, t),
                           name_object(program, use.object));
      }
      auto& [first, last] = seen[static_cast<std::size_t>(use.object)];
      if (first < 0) first = t;
      last = t;
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Object& object = program.objects[i];
    if (std::pair(object.first, object.last) != seen[i] || object.held < object.last) {
      return "a wrong lifetime: " + name_object(program, static_cast<ObjectId>(i));
    }
  }
  return {};
}

// Bytes of an object that were written.
class Written {
 public:
  void add(Range range) { ranges_.push_back(range); }
  bool covers(Range range) const {
    Bytes at = range.first;
    for (bool moved = true; moved && at < range.first + range.bytes;) {
      moved = false;
      for (const Range& each : ranges_) {
        if (each.first > at || each.first + each.bytes <= at) continue;
        at = each.first + each.bytes;
        moved = true;
      }
    }
    return at >= range.first + range.bytes;
  }

 private:
  std::vector<Range> ranges_;
};

// Temporary objects are written before they are read, byte by byte. What a transfer fills need not
// be a whole object: those are longer than what they hold, by less than their alignment.
inline std::string check_written_first(const Program& program) {
  std::vector<Written> written(program.objects.size());
  for (TaskId t = 0; t < static_cast<TaskId>(program.tasks.size()); ++t) {
    const Task& task = program.tasks[static_cast<std::size_t>(t)];
    // Padding that leaves for a tier of whole grains is the task's own: then who dies with it may
    // take its last bytes along.
    const Use* to = task.is_transfer() ? task.find(Role::destination) : nullptr;
    const bool exact = to != nullptr && !(*program.topology)[program[to->object].tier].addressable;
    for (const Use& use : task.uses) {
      if (exact && use.access == Access::write) {
        written[static_cast<std::size_t>(use.object)].add(program.range_of(use));
      }
    }
    for (const Use& use : task.uses) {
      const auto o = static_cast<std::size_t>(use.object);
      const Object& object = program.objects[o];
      if (object.persistent || use.access == Access::write) continue;
      Range range = program.range_of(use);
      const bool padded = !exact && (use.range.bytes < 0 || range.bytes % object.alignment == 0);
      if (padded) range.bytes = std::max<Bytes>(1, range.bytes - object.alignment + 1);
      if (!written[o].covers(range)) {
        return fmt::format("{} reads {} that nobody wrote", name_task(program, t),
                           name_object(program, use.object));
      }
    }
    for (const Use& use : task.uses) {
      if (use.access != Access::write) continue;
      Range range = program.range_of(use);
      // A plane that comes by itself: the next one starts at a multiple of 64 bytes.
      if (task.is_transfer()) range.bytes = align_up(range.first + range.bytes, 64) - range.first;
      written[static_cast<std::size_t>(use.object)].add(range);
    }
  }
  return {};
}

// Lanes do what they are for: transfers between the tiers that they join, of as many bytes on both
// sides, in whole grains where a tier has no addresses; computations on what has addresses.
inline std::string check_lanes(const Program& program) {
  const Topology& topology = *program.topology;
  for (TaskId t = 0; t < static_cast<TaskId>(program.tasks.size()); ++t) {
    const Task& task = program.tasks[static_cast<std::size_t>(t)];
    const LaneInfo& lane = topology[task.lane];
    if (task.is_transfer() != (lane.kind == LaneKind::transfer)) {
      return name_task(program, t) + " is on a lane of another kind";
    }
    if (!task.is_transfer()) {
      for (const Use& use : task.uses) {
        if (!topology[program[use.object].tier].addressable) {
          return name_task(program, t) + " computes on what has no addresses";
        }
      }
      continue;
    }
    const Use& from = *task.find(Role::source);
    const Use& to = *task.find(Role::destination);
    if (program[from.object].tier != lane.from || program[to.object].tier != lane.to) {
      return name_task(program, t) + " is on a lane between other tiers";
    }
    if (program.range_of(from).bytes != task.moved || program.range_of(to).bytes != task.moved) {
      return name_task(program, t) + " does not move its ranges";
    }
    for (const Tier tier : {lane.from, lane.to}) {
      const TierInfo& info = topology[tier];
      const Bytes grain = info.addressable ? 1 : info.alignment;
      const Bytes most = info.largest_transfer;
      if (program[from.object].alignment % grain != 0 ||
          program[to.object].alignment % grain != 0) {
        return name_task(program, t) + " trades with objects that do not start at a grain";
      }
      if (task.moved % grain != 0 || from.range.first % grain != 0 || to.range.first % grain != 0 ||
          (most > 0 && task.moved > most)) {
        return name_task(program, t) + " moves what the tier cannot";
      }
    }
  }
  return {};
}

// Waits point backward in the issue order, or to the step before, and to other lanes.
inline std::string check_waits(const Program& program) {
  const auto count = static_cast<TaskId>(program.tasks.size());
  for (TaskId t = 0; t < count; ++t) {
    const Task& task = program.tasks[static_cast<std::size_t>(t)];
    for (const Wait& wait : task.waits) {
      const bool exists = wait.task >= 0 && wait.task < count;
      if (!exists || (!wait.previous_step && wait.task >= t)) {
        return fmt::format("{} waits forward, for task {}", name_task(program, t), wait.task);
      }
      if (program.tasks[static_cast<std::size_t>(wait.task)].lane == task.lane) {
        return name_task(program, t) + " waits for its own lane";
      }
      if (std::count(task.waits.begin(), task.waits.end(), wait) != 1) {
        return name_task(program, t) + " waits twice for one task";
      }
    }
  }
  return {};
}

// Runs several steps on lanes that know nothing but their own order and the waits, and demands that
// every two accesses to the same bytes, one of which writes, are ordered.
class RaceCheck {
 public:
  RaceCheck(const Program& program, const Layout& layout) : program_(program), layout_(layout) {}

  std::string run() {
    tick_all();
    collect_accesses();
    const auto count = static_cast<ObjectId>(program_.objects.size());
    for (ObjectId a = 0; a < count; ++a) {
      for (ObjectId b = 0; b <= a; ++b) {
        if (a != b && !share_bytes(program_, layout_, a, b)) continue;
        if (auto wrong = check_pair(a, b); !wrong.empty()) return wrong;
      }
    }
    return {};
  }

 private:
  static constexpr int kSteps = 3;
  using Ticks = std::array<int, kMostLanes>;
  struct Access_ {
    TaskId task;
    Range bytes;  // of its arena
    bool write;
  };

  std::size_t index(int step, TaskId task) const {
    return static_cast<std::size_t>(step) * program_.tasks.size() + static_cast<std::size_t>(task);
  }
  static std::size_t lane_of(const Task& task) { return task.lane.index; }

  // ends_[i][lane]: how many tasks of the lane have ended for sure when instance i has.
  void tick_all() {
    const auto count = static_cast<TaskId>(program_.tasks.size());
    ends_.resize(program_.tasks.size() * kSteps);
    std::array<Ticks, kMostLanes> lanes{};
    for (int step = 0; step < kSteps; ++step) {
      for (TaskId t = 0; t < count; ++t) {
        const Task& task = program_.tasks[static_cast<std::size_t>(t)];
        Ticks& own = lanes[lane_of(task)];
        for (const Wait& wait : task.waits) {
          if (wait.previous_step && step == 0) continue;
          const Ticks& other = ends_[index(step - (wait.previous_step ? 1 : 0), wait.task)];
          for (std::size_t l = 0; l < own.size(); ++l) own[l] = std::max(own[l], other[l]);
        }
        ++own[lane_of(task)];
        ends_[index(step, t)] = own;
      }
    }
  }

  void collect_accesses() {
    accesses_.resize(program_.objects.size());
    for (TaskId t = 0; t < static_cast<TaskId>(program_.tasks.size()); ++t) {
      for (const Use& use : program_.tasks[static_cast<std::size_t>(t)].uses) {
        Range bytes = program_.range_of(use);
        bytes.first += layout_.offsets[static_cast<std::size_t>(use.object)];
        accesses_[static_cast<std::size_t>(use.object)].push_back(
            {t, bytes, use.access == Access::write});
      }
    }
  }

  bool ordered(int step_a, TaskId a, int step_b, TaskId b) const {
    const Ticks& x = ends_[index(step_a, a)];
    const Ticks& y = ends_[index(step_b, b)];
    const auto lane_a = lane_of(program_.tasks[static_cast<std::size_t>(a)]);
    const auto lane_b = lane_of(program_.tasks[static_cast<std::size_t>(b)]);
    return y[lane_a] >= x[lane_a] || x[lane_b] >= y[lane_b];
  }

  std::string check_pair(ObjectId a, ObjectId b) const {
    for (const Access_& x : accesses_[static_cast<std::size_t>(a)]) {
      for (const Access_& y : accesses_[static_cast<std::size_t>(b)]) {
        if (!x.write && !y.write) continue;
        if (x.bytes.first >= y.bytes.first + y.bytes.bytes ||
            y.bytes.first >= x.bytes.first + x.bytes.bytes) {
          continue;
        }
        for (int sx = 0; sx < kSteps; ++sx) {
          for (int sy = 0; sy < kSteps; ++sy) {
            if (ordered(sx, x.task, sy, y.task)) continue;
            return fmt::format(
                "a race: {} of step {} on {} (from {}), {} of step {} on {} (from {})",
                name_task(program_, x.task), sx, name_object(program_, a), x.bytes.first,
                name_task(program_, y.task), sy, name_object(program_, b), y.bytes.first);
          }
        }
      }
    }
    return {};
  }

  const Program& program_;
  const Layout& layout_;
  std::vector<Ticks> ends_;
  std::vector<std::vector<Access_>> accesses_;
};

inline std::string check_races(const Program& program, const Layout& layout) {
  return RaceCheck(program, layout).run();
}

// Every check on one program, laid out and with its waits.
inline std::string check_all(Program program) {
  if (auto wrong = check_uses(program); !wrong.empty()) return wrong;
  if (auto wrong = check_written_first(program); !wrong.empty()) return wrong;
  if (auto wrong = check_lanes(program); !wrong.empty()) return wrong;
  const Layout layout = lay_out(program);
  if (auto wrong = check_addresses(program, layout); !wrong.empty()) return wrong;
  add_waits(program, layout);
  if (auto wrong = check_waits(program); !wrong.empty()) return wrong;
  return check_races(program, layout);
}

}  // namespace ebb::plan
