// A plan of the engine as the API shows it.
#pragma once

#include <string>

#include "ebb/plan.h"
#include "plan/candidate.h"

namespace ebb::api {

// Without alternatives.
Plan describe(const plan::Plan& plan, std::string explanation);

}  // namespace ebb::api
