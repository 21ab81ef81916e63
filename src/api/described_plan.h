// A plan of the engine as the API shows it.
#pragma once

#include <string>

#include "ebb/plan.h"
#include "plan/candidate.h"

namespace ebb::api {

// The public Plan of an engine's plan: times, tiers and flags are copied, so it outlives `plan`.
// `explanation` goes in as it is; alternatives stay empty, as simulating them takes longer than the
// plan itself did.
Plan describe(const plan::Plan& plan, std::string explanation);

}  // namespace ebb::api
