#include "plan/scheduler.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "base/to_size.h"

namespace ebb::plan {
namespace {

ObjectId object_of(const Fetch& fetch) { return fetch.task.find(Role::destination)->object; }

// Bytes of a tier that are alive at each task, without what is left out.
List<Bytes> bytes_alive(const Program& program, Tier tier, const List<bool>& left_out) {
  List<Bytes> change(program.tasks.size() + 1, 0);
  Bytes now = 0;
  for (std::size_t i = 0; i < program.objects.size(); ++i) {
    const Object& object = program.objects[i];
    if (object.tier != tier || (!left_out.empty() && left_out[i])) continue;
    if (object.persistent) {
      now += object.bytes;
    } else if (object.first >= 0) {
      change[object.first] += object.bytes;
      change[object.held + 1] -= object.bytes;
    }
  }
  List<Bytes> alive(program.tasks.size());
  for (std::size_t task = 0; task < alive.size(); ++task) alive[task] = now += change[task];
  return alive;
}

class Scheduler {
 public:
  Scheduler(const Program& program, const List<Fetch>& fetches, const PerTier<Bytes>& budget)
      : program_(program), fetches_(fetches), budget_(budget), starts_(fetches.size(), 0) {
    List<bool> left_out(program.objects.size(), false);
    for (const Fetch& fetch : fetches) left_out[object_of(fetch)] = true;
    for (const Tier tier : program.topology->all_tiers())
      alive_[tier] = bytes_alive(program, tier, left_out);
  }

  void run(Arrival arrival) {
    place_streams();
    place_by_room(arrival);
  }

  TaskId start(std::size_t fetch) const { return starts_[fetch]; }
  // Which fetch is issued before which, where they start at the same task.
  const List<std::size_t>& order() const { return order_; }

 private:
  const Object& object(std::size_t fetch) const { return program_[object_of(fetches_[fetch])]; }

  void take(const Object& object, TaskId from) {
    for (TaskId task = from; task <= object.last; ++task) {
      alive_[object.tier][task] += object.bytes;
    }
  }

  void place_streams() {
    std::map<int, List<std::size_t>> by_stream;
    for (std::size_t i = 0; i < fetches_.size(); ++i) {
      if (object(i).stream >= 0) by_stream[object(i).stream].push_back(i);
    }
    for (const auto& [stream, members] : by_stream) {
      const auto ahead = to_size(std::max(1, program_.streams[stream].depth) - 1);
      List<const Object*> objects;  // one may be fetched in parts, which come together
      for (const std::size_t i : members) {
        const bool fresh = objects.empty() || objects.back() != &object(i);
        if (fresh) objects.push_back(&object(i));
        const TaskId before =
            objects.size() > ahead ? objects[objects.size() - 1 - ahead]->first : 0;
        starts_[i] = std::min(std::max(fetches_[i].earliest, before), object(i).first);
        if (fresh) take(object(i), starts_[i]);
        order_.push_back(i);
      }
    }
  }

  // Where each starts when they are issued in `order`, which takes their room.
  void place(const List<std::size_t>& order, PerTier<List<Bytes>>& alive) {
    TaskId from = 0;
    for (const std::size_t i : order) {
      const Object& state = object(i);
      List<Bytes>& bytes = alive[state.tier];
      from = std::max(from, fetches_[i].earliest);
      // Go back from the last use for as long as there is room.
      TaskId start = state.last + 1;
      while (start > from && bytes[start - 1] + state.bytes <= budget_[state.tier]) {
        --start;
      }
      start = std::min(start, state.first);
      for (TaskId task = start; task <= state.last; ++task) {
        bytes[task] += state.bytes;
      }
      from = std::max(from, start);
      starts_[i] = start;
    }
  }

  // What comes from a tier that cannot be addressed, a slow one, has the first choice of the room.
  void place_by_room(Arrival arrival) {
    List<std::size_t> slow, fast;
    for (std::size_t i = 0; i < fetches_.size(); ++i) {
      if (object(i).stream >= 0) continue;
      const Tier from = program_[fetches_[i].task.find(Role::source)->object].tier;
      ((*program_.topology)[from].addressable ? fast : slow).push_back(i);
    }
    // And it comes in the order of its uses: these need not wait until all of it is there.
    if (!slow.empty()) place_by_room(slow, Arrival::first_first);
    if (!fast.empty()) place_by_room(fast, arrival);
  }

  void place_by_room(List<std::size_t>& order, Arrival arrival) {
    PerTier<List<Bytes>> alive = alive_;
    place(order, alive);
    // Those that are in before the first is used take their places from the high end down. Updates
    // go in the order of the blocks, and so does what the next forward pass fills from the low end
    // up: the first to be updated, and so the first to leave, must be the last to come.
    if (arrival == Arrival::last_first) {
      const TaskId first_use = object(order.front()).first;
      const auto window = std::find_if(order.begin(), order.end(),
                                       [&](std::size_t i) { return starts_[i] >= first_use; });
      std::reverse(order.begin(), window);
      alive = alive_;
      place(order, alive);
    }
    alive_ = std::move(alive);
    order_.insert(order_.end(), order.begin(), order.end());
  }

  const Program& program_;
  const List<Fetch>& fetches_;
  const PerTier<Bytes>& budget_;
  PerTier<List<Bytes>> alive_;
  List<TaskId> starts_;
  List<std::size_t> order_;
};

}  // namespace

void place_fetches(Program& program, List<Fetch> fetches, const PerTier<Bytes>& budget,
                   Arrival arrival) {
  if (fetches.empty()) return;
  program.find_lifetimes();
  Scheduler scheduler(program, fetches, budget);
  scheduler.run(arrival);
  List<List<Task>> inserted(program.tasks.size());
  for (const std::size_t i : scheduler.order()) {
    inserted[scheduler.start(i)].push_back(std::move(fetches[i].task));
  }
  List<Task> merged;
  merged.reserve(program.tasks.size() + fetches.size());
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    std::move(inserted[task].begin(), inserted[task].end(), std::back_inserter(merged));
    merged.push_back(std::move(program.tasks[task]));
  }
  program.tasks = std::move(merged);
}

void hold_what_leaves(Program& program, const PerTier<Bytes>& budget) {
  // By tier, in the order in which they would be gone.
  List<List<ObjectId>> leaving(program.topology->tiers.size());
  for (TaskId id = 0; id < program.tasks.count(); ++id) {
    const Task& task = program.tasks[id];
    if (!task.is_transfer()) continue;
    const Tier to = program[task.find(Role::destination)->object].tier;
    const ObjectId source = task.find(Role::source)->object;
    const Object& object = program[source];
    if ((*program.topology)[to].addressable || object.persistent || object.last != id) continue;
    leaving[object.tier.index].push_back(source);
  }
  for (const Tier tier : program.topology->all_tiers()) {
    List<ObjectId>& ids = leaving[tier.index];
    if (ids.empty()) continue;
    std::stable_sort(ids.begin(), ids.end(),
                     [&](ObjectId a, ObjectId b) { return program[a].held < program[b].held; });
    const List<Bytes> alive = bytes_alive(program, tier, {});
    const Bytes room = std::min(budget[tier], *std::max_element(alive.begin(), alive.end()));
    // Those from `oldest` up to `next` are kept; where there is no room for all, the oldest goes.
    std::size_t oldest = 0, next = 0;
    Bytes kept = 0;
    const auto end = static_cast<TaskId>(alive.size());
    for (TaskId id = 0; id <= end; ++id) {
      for (; next < ids.size() && program[ids[next]].held < id; ++next) {
        kept += program[ids[next]].bytes;
      }
      const auto full = [&] { return id == end || alive[id] + kept > room; };
      for (; oldest < next && full(); ++oldest) {
        Object& object = program.objects[ids[oldest]];
        object.held = id - 1;
        kept -= object.bytes;
      }
    }
  }
}

}  // namespace ebb::plan
