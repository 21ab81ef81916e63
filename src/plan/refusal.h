// Why work does not fit, for the person who asked for it.
#pragma once

#include "base/list.h"
#include "ebb/error.h"
#include "plan/candidate.h"
#include "plan/choice_table.h"

namespace ebb::plan {

// The error to throw where the closest plan does not fit: a table of bytes by purpose, what is
// missing on each tier, what alone is too large, the plan by its flags, a note (lines, or nothing),
// and what would help.
// Remedies that name flags were tried by the caller; what helps always is added to them.
OutOfBudget refuse(const Plan& closest, const std::string& flags, List<std::string> remedies,
                   const std::string& note = {});

// The same of training: what other choices would do is tried here, what another batch would do was
// tried by the caller.
OutOfBudget refusal(const Plan& closest, const FixedChoices&, List<std::string> batch_remedies);

}  // namespace ebb::plan
