// Why work does not fit, for the person who asked for it.
#pragma once

#include <string>

#include "plan/candidate.h"
#include "plan/choice_table.h"

namespace ebb::plan {

// The table of who needs what, the bytes missing, and what would help: each remedy was tried.
std::string explain_refusal(const Plan& closest, const Wishes&);

}  // namespace ebb::plan
