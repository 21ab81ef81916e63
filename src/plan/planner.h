// From limits and fixed choices to a plan: tries candidates through layout and simulator and keeps
// the fastest that fits. What the user fixed stays fixed.
#pragma once

#include "plan/candidate.h"
#include "plan/choice_table.h"

namespace ebb::plan {

// The fastest plan that fits, or the one that comes closest.
Plan find_plan(const Workload&, const FixedChoices&, const Limits&, const Profile&);

// The fastest plan that fits. Throws OutOfBudget, whose text is the table of bytes by purpose, what
// is missing and what would help.
Plan make_plan(const Workload&, const FixedChoices&, const Limits&, const Profile&);

}  // namespace ebb::plan
