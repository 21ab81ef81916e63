// Who is known to come before whom, from waits and the order of lanes alone.
#pragma once

#include <array>
#include <vector>

#include "plan/program.h"

namespace ebb::plan {

// On each lane, the last task of this step that has ended for sure when a task starts; -1 for none.
using Clock = std::array<TaskId, kLanes.size()>;

std::vector<Clock> clocks_of(const Program&);

}  // namespace ebb::plan
