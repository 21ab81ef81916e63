#include "plan/simulator.h"

#include <algorithm>

namespace ebb::plan {
namespace {

// Tides of one step reach into the next and no further, so the third step already repeats.
constexpr int kSteps = 4;

}  // namespace

Simulation simulate(const Program& program, const Profile& profile) {
  Simulation result;
  std::vector<double> seconds(program.tasks.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = predicted_seconds(program.tasks[i], profile);
    result.busy_seconds[static_cast<std::size_t>(program.tasks[i].lane)] += seconds[i];
  }

  std::vector<double> ended(program.tasks.size(), 0);
  std::vector<double> ended_before(program.tasks.size(), 0);
  std::array<double, kLanes.size()> lane_free{};
  constexpr auto compute = static_cast<std::size_t>(Lane::compute);
  double step_start = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::swap(ended, ended_before);
    result.exposed_seconds = {};
    step_start = lane_free[compute];
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
      const Task& task = program.tasks[i];
      const auto lane = static_cast<std::size_t>(task.lane);
      double start = lane_free[lane];
      std::size_t held_by = lane;
      for (const Wait& wait : task.waits) {
        const auto other = static_cast<std::size_t>(wait.task);
        const double end = wait.previous_step ? ended_before[other] : ended[other];
        if (end > start) {
          start = end;
          held_by = static_cast<std::size_t>(program.tasks[other].lane);
        }
      }
      if (lane == compute) result.exposed_seconds[held_by] += start - lane_free[lane];
      lane_free[lane] = ended[i] = start + seconds[i];
    }
  }
  result.step_seconds = lane_free[compute] - step_start;
  return result;
}

}  // namespace ebb::plan
