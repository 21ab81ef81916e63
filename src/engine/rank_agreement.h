// What ranks agree on before they train together.
#pragma once

#include <functional>
#include <string>

#include "dist/communicator.h"
#include "plan/planner.h"

namespace ebb::engine {

// The same text on every rank, or ConfigError that names the first rank with another one and says
// what `what` is.
void check_same(dist::Communicator& ranks, const std::string& what, const std::string& text);

// Calls make() on every rank, on rank 0 first: the others cut blocks into chunks and pieces as its
// plan does. A rank whose plan fails tells the others why.
plan::Plan plan_together(dist::Communicator& ranks, const plan::FixedChoices& fixed,
                         const std::function<plan::Plan(const plan::FixedChoices&)>& make);

// Ranks whose plans cut blocks in different places would send each other what they do not expect.
void check_same_cuts(dist::Communicator& ranks, const plan::Plan& plan);

}  // namespace ebb::engine
