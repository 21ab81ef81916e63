#include "exec/disturbance.h"

#include "plan/happens_before.h"

namespace ebb::exec {

List<List<plan::ObjectId>> dead_after(const plan::Program& program) {
  using plan::ObjectId;
  using plan::TaskId;
  List<List<ObjectId>> dead(program.tasks.size());
  const List<plan::Clock> clocks = plan::clocks_of(program);
  plan::Clock nobody;
  nobody.fill(-1);
  List<plan::Clock> users(program.objects.size(), nobody);
  for (TaskId id = 0; id < program.tasks.count(); ++id) {
    const plan::Task& task = program.tasks[id];
    for (const plan::Use& use : task.uses) {
      users[use.object][task.lane] = id;
    }
  }
  for (ObjectId i = 0; i < program.objects.count(); ++i) {
    const plan::Object& object = program[i];
    if (object.persistent || object.last < 0) continue;
    bool after_all = true;
    for (const plan::Lane lane : program.topology->all_lanes()) {
      const TaskId user = users[i][lane];
      after_all = after_all && (user == object.last || user <= clocks[object.last][lane]);
    }
    if (after_all) dead[object.last].push_back(i);
  }
  return dead;
}

}  // namespace ebb::exec
