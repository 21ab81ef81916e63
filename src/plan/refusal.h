// Why work does not fit, for the person who asked for it.
#pragma once

#include "base/list.h"
#include "ebb/error.h"
#include "plan/candidate.h"
#include "plan/choice_table.h"

namespace ebb::plan {

// The tiers that are too small for the plan.
List<Shortfall> shortfalls_of(const Plan& plan);

// The table of bytes by purpose, and the bytes that are missing on each tier.
std::string explain_missing(const Plan& closest);

// The error to throw: the same, and what would help; each remedy that names flags was tried.
OutOfBudget refusal(const Plan& closest, const FixedChoices&);

}  // namespace ebb::plan
