// Which task is known to come before which, from waits and the order of lanes alone.
#pragma once

#include "base/list.h"
#include "plan/program.h"

namespace ebb::plan {

// On each lane, the last task of this step that has ended for sure when a task starts; -1 for none.
using Clock = PerLane<TaskId>;

List<Clock> clocks_of(const Program&);

}  // namespace ebb::plan
