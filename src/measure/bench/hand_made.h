// Plans as a person would make them, to hold the planner's choice against.
#pragma once

#include <string>
#include <vector>

#include "plan/planner.h"

namespace ebb::measure {

struct HandMadePlan {
  std::string name;
  plan::Plan plan;
};

inline constexpr std::size_t kHandMadePlans = 8;

// At most kHandMadePlans, all different, for the same work, limits and speeds as `chosen`: those
// that fit.
std::vector<HandMadePlan> hand_made_plans(const plan::Plan& chosen);

}  // namespace ebb::measure
