#include "plan/layout.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace ebb::plan {
namespace {

// The free ranges of an arena, by start. There are few at a time: a plain vector is fastest.
class FreeList {
 public:
  // Which of the holes that are large enough is taken: the one nearest to the end that is asked
  // for, or the smallest, the nearest of several.
  enum class Fit : std::uint8_t { nearest, tightest };

  explicit FreeList(Bytes size, Fit low = Fit::nearest, Fit high = Fit::nearest)
      : low_(low), high_(high) {
    if (size > 0) ranges_.push_back({0, size});
  }

  std::optional<Bytes> take(Bytes bytes, Bytes alignment, End end) {
    const auto low = [&](const Hole& hole) { return align_up(hole.start, alignment); };
    const auto high = [&](const Hole& hole) { return (hole.end - bytes) / alignment * alignment; };
    const bool from_low = end == End::low;
    auto best = ranges_.end();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const auto hole =
          ranges_.begin() + static_cast<std::ptrdiff_t>(from_low ? i : ranges_.size() - 1 - i);
      const bool fits = from_low ? low(*hole) + bytes <= hole->end
                                 : hole->end >= bytes && high(*hole) >= hole->start;
      if (!fits) continue;
      if (best == ranges_.end() || hole->end - hole->start < best->end - best->start) best = hole;
      if ((from_low ? low_ : high_) == Fit::nearest) break;
    }
    if (best == ranges_.end()) return std::nullopt;
    return cut(best, from_low ? low(*best) : high(*best), bytes);
  }

  // These very bytes, which are free.
  void take_at(Bytes start, Bytes bytes) {
    const auto it = std::find_if(ranges_.begin(), ranges_.end(), [&](const Hole& hole) {
      return hole.start <= start && start + bytes <= hole.end;
    });
    if (it != ranges_.end()) cut(it, start, bytes);
  }

  void give_back(Bytes start, Bytes bytes) {
    const auto next = std::lower_bound(ranges_.begin(), ranges_.end(), start,
                                       [](const Hole& hole, Bytes at) { return hole.start < at; });
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
    for (const Hole& hole : ranges_) most = std::max(most, hole.end - hole.start);
    return most;
  }

 private:
  struct Hole {
    Bytes start = 0;
    Bytes end = 0;
  };

  Bytes cut(List<Hole>::iterator hole, Bytes start, Bytes bytes) {
    const Hole before{hole->start, start};
    const Hole behind{start + bytes, hole->end};
    const bool is_before = before.start < before.end;
    const bool is_behind = behind.start < behind.end;
    *hole = is_before ? before : behind;
    if (is_before && is_behind) ranges_.insert(std::next(hole), behind);
    if (!is_before && !is_behind) ranges_.erase(hole);
    return start;
  }

  Fit low_, high_;  // of what comes from each end
  List<Hole> ranges_;
};

// The objects of a tier in the order in which they come to life, and in which they go.
struct Births {
  List<ObjectId> persistent;
  List<ObjectId> born;
  List<ObjectId> dead;
};

Births births_of(const Program& program, Tier tier) {
  Births births;
  for (ObjectId id = 0; id < program.objects.count(); ++id) {
    const Object& object = program.objects[id];
    if (object.tier != tier || object.bytes == 0) continue;
    if (object.persistent) {
      births.persistent.push_back(id);
    } else if (object.first >= 0) {
      births.born.push_back(id);
    }
  }
  births.dead = births.born;
  const auto sort_by = [&](List<ObjectId>& ids, TaskId Object::*when) {
    std::stable_sort(ids.begin(), ids.end(), [&](ObjectId a, ObjectId b) {
      return program.objects[a].*when < program.objects[b].*when;
    });
  };
  sort_by(births.born, &Object::first);
  sort_by(births.dead, &Object::held);
  return births;
}

// Goes through the step: `place` each object as it comes to life, until one says no; `take_back`
// each that is held no longer.
template <class Place, class TakeBack>
void live_through(const Program& program, const Births& births, Place place, TakeBack take_back) {
  const auto object = [&](ObjectId id) -> const Object& { return program.objects[id]; };
  for (const ObjectId id : births.persistent) {
    if (!place(id, object(id))) return;
  }
  auto dead = births.dead.begin();
  for (const ObjectId id : births.born) {
    for (; object(*dead).held < object(id).first; ++dead) take_back(*dead, object(*dead));
    if (!place(id, object(id))) return;
  }
}

// One sweep through the step in what is free of an arena. Returns by how much the arena was too
// small for the first object that found no place; 0 when all did.
Bytes sweep(const Program& program, const Births& births, List<Bytes>& offsets, FreeList free,
            bool streams_opposite = false) {
  Bytes missing = 0;
  live_through(
      program, births,
      [&](ObjectId id, const Object& object) {
        const bool opposite = streams_opposite && object.stream >= 0;
        const auto at = free.take(object.bytes, object.alignment,
                                  opposite == (object.end == End::low) ? End::high : End::low);
        offsets[id] = at.value_or(0);
        if (!at) missing = std::max(object.alignment, object.bytes - free.largest());
        return at.has_value();
      },
      [&](ObjectId id, const Object& object) { free.give_back(offsets[id], object.bytes); });
  return missing;
}

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
Bytes extent(const Program& program, const Births& births, const List<Bytes>& offsets) {
  Bytes end = 0;
  for (const auto* ids : {&births.persistent, &births.born}) {
    for (const ObjectId id : *ids) {
      end = std::max(end, offsets[id] + program.objects[id].bytes);
    }
  }
  return end;
}

}  // namespace

Bytes peak_alive(const Program& program, Tier tier) {
  return peak_alive(program, births_of(program, tier));
}

namespace {

using Fit = FreeList::Fit;
struct Way {
  Fit low, high;
  bool streams_opposite = false;  // what belongs to streams comes from the other end
};
constexpr Way kWays[] = {{Fit::nearest, Fit::nearest},       {Fit::tightest, Fit::tightest},
                         {Fit::nearest, Fit::tightest},      {Fit::tightest, Fit::nearest},
                         {Fit::nearest, Fit::nearest, true}, {Fit::tightest, Fit::tightest, true}};

}  // namespace

Layout lay_out(const Program& program, const Bounds& bounds) {
  Layout layout;
  layout.offsets.assign(program.objects.size(), 0);
  for (const Tier tier : program.topology->all_tiers()) {
    const Births births = births_of(program, tier);
    // Most programs need no byte more than what is alive at once; where holes are left over, the
    // arena grows by what the object that found no place was short of, and all is placed anew.
    const ArenaBounds& room = bounds[tier];
    // Objects are placed from both ends: both are aligned.
    const Bytes grain = (*program.topology)[tier].alignment;
    Bytes size =
        std::max(align_up(peak_alive(program, births), grain), room.wanted / grain * grain);
    constexpr int patience = 8;
    for (int sweeps = 1; size <= room.most; ++sweeps) {
      // What comes from the two ends is placed in some ways, until one finds a place for all.
      Bytes missing = std::numeric_limits<Bytes>::max();
      for (const auto& [low, high, streams_opposite] : kWays) {
        if (missing == 0 || (sweeps > patience && missing < size)) break;
        missing = std::min(missing, sweep(program, births, layout.offsets,
                                          FreeList(size, low, high), streams_opposite));
      }
      if (missing == 0) {
        size = extent(program, births, layout.offsets);
        break;
      }
      // Many small objects are short of little each: past some sweeps, half a percent at a time.
      size += align_up(sweeps < patience ? missing : std::max(missing, size / 200), grain);
    }
    layout.size[tier] = size;
  }
  return layout;
}

Layout lay_out_beside(const Program& program, const Program& first, const Layout& of_first) {
  Layout layout = of_first;
  layout.offsets.assign(program.objects.size(), 0);
  for (const Tier tier : program.topology->all_tiers()) {
    Births births = births_of(program, tier);
    FreeList free(of_first.size_of(tier));
    for (std::size_t i = 0; i < first.objects.size(); ++i) {
      const Object& object = first.objects[i];
      if (!object.persistent) continue;
      if (i < program.objects.size() && program.objects[i].persistent) {
        layout.offsets[i] = of_first.offsets[i];
      }
      if (object.tier == tier) free.take_at(of_first.offsets[i], object.bytes);
    }
    births.persistent.clear();
    layout.size[tier] += sweep(program, births, layout.offsets, free);
  }
  return layout;
}

}  // namespace ebb::plan
