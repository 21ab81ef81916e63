#include "plan/tide.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace ebb::plan {
namespace {

ObjectId state_of(const Fetch& fetch) { return fetch.task.find(Role::state)->object; }

// Device bytes alive at each task, without the states that are still to ride in.
std::vector<Bytes> bytes_alive(const Program& program, const std::vector<bool>& left_out) {
  std::vector<Bytes> change(program.tasks.size() + 1, 0);
  Bytes always = 0;
  for (std::size_t i = 0; i < program.objects.size(); ++i) {
    const Object& object = program.objects[i];
    if (object.tier != Tier::device || left_out[i]) continue;
    if (object.persistent) {
      always += object.bytes;
    } else if (object.first >= 0) {
      change[static_cast<std::size_t>(object.first)] += object.bytes;
      change[static_cast<std::size_t>(object.last) + 1] -= object.bytes;
    }
  }
  std::vector<Bytes> alive(program.tasks.size());
  Bytes now = always;
  for (std::size_t task = 0; task < alive.size(); ++task) alive[task] = now += change[task];
  return alive;
}

// Where each fetch starts when they are issued in `order`: at the earliest point at which its state
// fits until its last use, or right before it is needed.
std::vector<TaskId> starts_of(const Program& program, const std::vector<Fetch>& fetches,
                              const std::vector<std::size_t>& order, std::vector<Bytes> alive,
                              Bytes budget, TaskId from) {
  std::vector<TaskId> starts(fetches.size());
  for (const std::size_t i : order) {
    const Object& state = program.objects[static_cast<std::size_t>(state_of(fetches[i]))];
    // Go back from the last use for as long as there is room.
    TaskId start = state.last + 1;
    while (start > from && alive[static_cast<std::size_t>(start) - 1] + state.bytes <= budget) {
      --start;
    }
    start = std::min(start, fetches[i].before);
    for (TaskId task = start; task <= state.last; ++task) {
      alive[static_cast<std::size_t>(task)] += state.bytes;
    }
    from = std::max(from, start);
    starts[i] = start;
  }
  return starts;
}

}  // namespace

void ride_in(Program& program, std::vector<Fetch> fetches, Bytes device_budget, TaskId earliest,
             Arrival arrival) {
  if (fetches.empty()) return;
  program.find_lifetimes();
  std::vector<bool> left_out(program.objects.size(), false);
  for (const Fetch& fetch : fetches) left_out[static_cast<std::size_t>(state_of(fetch))] = true;
  const std::vector<Bytes> alive = bytes_alive(program, left_out);
  const auto starts_in = [&](const std::vector<std::size_t>& order) {
    return starts_of(program, fetches, order, alive, device_budget, earliest);
  };

  std::vector<std::size_t> order(fetches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<TaskId> starts = starts_in(order);
  // Those that are in before the first update take their places from the high end down. Updates go
  // in the order of the blocks, and so does what the next forward pass fills from the low end up:
  // the first to be updated, and so the first to leave, must be the last to come.
  if (arrival == Arrival::last_first) {
    const auto window = std::find_if(starts.begin(), starts.end(),
                                     [&](TaskId start) { return start >= fetches.front().before; });
    std::reverse(order.begin(), order.begin() + (window - starts.begin()));
    starts = starts_in(order);
  }

  std::vector<std::vector<Task>> inserted(program.tasks.size());
  for (const std::size_t i : order) {
    inserted[static_cast<std::size_t>(starts[i])].push_back(std::move(fetches[i].task));
  }
  std::vector<Task> merged;
  merged.reserve(program.tasks.size() + fetches.size());
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    std::move(inserted[task].begin(), inserted[task].end(), std::back_inserter(merged));
    merged.push_back(std::move(program.tasks[task]));
  }
  program.tasks = std::move(merged);
}

}  // namespace ebb::plan
