#include "plan/tide.h"

#include <algorithm>

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

}  // namespace

void ride_in(Program& program, std::vector<Fetch> fetches, Bytes device_budget, TaskId earliest) {
  if (fetches.empty()) return;
  program.find_lifetimes();
  std::vector<bool> left_out(program.objects.size(), false);
  for (const Fetch& fetch : fetches) left_out[static_cast<std::size_t>(state_of(fetch))] = true;
  std::vector<Bytes> alive = bytes_alive(program, left_out);

  std::vector<std::vector<Task>> inserted(program.tasks.size());
  TaskId from = earliest;
  for (Fetch& fetch : fetches) {
    const Object& state = program.objects[static_cast<std::size_t>(state_of(fetch))];
    // Go back from the last use for as long as there is room.
    TaskId start = state.last + 1;
    while (start > from &&
           alive[static_cast<std::size_t>(start) - 1] + state.bytes <= device_budget) {
      --start;
    }
    start = std::min(start, fetch.before);
    for (TaskId task = start; task <= state.last; ++task) {
      alive[static_cast<std::size_t>(task)] += state.bytes;
    }
    from = std::max(from, start);
    inserted[static_cast<std::size_t>(start)].push_back(std::move(fetch.task));
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
