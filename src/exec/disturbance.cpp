#include "exec/disturbance.h"

#include "base/rng.h"
#include "plan/order.h"

namespace ebb::exec {

std::vector<std::vector<plan::ObjectId>> dead_after(const plan::Program& program) {
  using plan::ObjectId;
  using plan::TaskId;
  std::vector<std::vector<ObjectId>> dead(program.tasks.size());
  const std::vector<plan::Clock> clocks = plan::clocks_of(program);
  plan::Clock nobody;
  nobody.fill(-1);
  std::vector<plan::Clock> users(program.objects.size(), nobody);
  for (TaskId id = 0; id < static_cast<TaskId>(program.tasks.size()); ++id) {
    const plan::Task& task = program.tasks[static_cast<std::size_t>(id)];
    for (const plan::Use& use : task.uses) {
      users[static_cast<std::size_t>(use.object)][task.lane] = id;
    }
  }
  for (ObjectId i = 0; i < static_cast<ObjectId>(program.objects.size()); ++i) {
    const plan::Object& object = program[i];
    if (object.persistent || object.last < 0) continue;
    const auto last = static_cast<std::size_t>(object.last);
    bool after_all = true;
    for (const plan::Lane lane : program.topology->all_lanes()) {
      const TaskId user = users[static_cast<std::size_t>(i)][lane];
      after_all = after_all && (user == object.last || user <= clocks[last][lane]);
    }
    if (after_all) dead[last].push_back(i);
  }
  return dead;
}

void pause_at_random(const Disturbance& disturbance, plan::TaskId id, std::int64_t step,
                     device::Stream& stream) {
  if (disturbance.slow_lanes_seed == 0) return;
  const CounterRng rng(disturbance.slow_lanes_seed, static_cast<std::uint64_t>(step));
  const double u = rng.uniform(static_cast<std::uint64_t>(id));
  if (u > 0.9) stream.pause(static_cast<std::int64_t>((u - 0.9) * 1e4));
}

}  // namespace ebb::exec
