#include "plan/happens_before.h"

#include <algorithm>

namespace ebb::plan {

List<Clock> clocks_of(const Program& program) {
  List<Clock> clocks(program.tasks.size());
  Clock last_on_lane;
  last_on_lane.fill(-1);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    Clock& clock = clocks[i];
    clock.fill(-1);
    const auto after = [&](TaskId task) {
      if (task < 0) return;
      for (const Lane lane : program.topology->all_lanes()) {
        clock[lane] = std::max(clock[lane], clocks[task][lane]);
      }
      auto& own = clock[program.tasks[task].lane];
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
