#include "plan/order.h"

#include <algorithm>

namespace ebb::plan {

std::vector<Clock> clocks_of(const Program& program) {
  std::vector<Clock> clocks(program.tasks.size());
  Clock last_on_lane;
  last_on_lane.fill(-1);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    Clock& clock = clocks[i];
    clock.fill(-1);
    const auto after = [&](TaskId task) {
      if (task < 0) return;
      const auto other = static_cast<std::size_t>(task);
      for (const Lane lane : program.topology->all_lanes()) {
        clock[lane] = std::max(clock[lane], clocks[other][lane]);
      }
      auto& own = clock[program.tasks[other].lane];
      own = std::max(own, task);
    };
    for (const Wait& wait : program.tasks[i].waits) {
      if (!wait.previous_step) after(wait.task);
    }
    TaskId& before = last_on_lane[program.tasks[i].lane];
    after(before);
    before = static_cast<TaskId>(i);
  }
  return clocks;
}

}  // namespace ebb::plan
