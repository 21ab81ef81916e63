// The dependencies of a program: which task must have ended before which starts.
#pragma once

#include "plan/layout.h"
#include "plan/program.h"

namespace ebb::plan {

// Adds to every task the waits that the bytes it uses demand: after the last writer of what it
// reads, and after the last users of what it writes, whatever object these bytes belonged to then.
// So the sharing of addresses needs no word of its own. Waits on the task's own lane and doubled
// ones are left out.
void add_waits(Program&, const Layout&);

}  // namespace ebb::plan
