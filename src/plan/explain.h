// A plan in words: tables for people.
#pragma once

#include <map>
#include <string>

#include "plan/planner.h"

namespace ebb::plan {

// Bytes over the limits, all tiers added up.
Bytes missing_bytes(const Plan&);

// Bytes by purpose at the moment at which most is alive on the tier.
std::map<Purpose, Bytes> bytes_at_peak(const Plan&, Tier);

// "--states stream --offload-fraction 0.5 ...": the flags that reproduce the choices.
std::string flags_of(const Choices&);

// Who needs how much on which tier, what a step costs on which lane and what is exposed.
std::string explain(const Plan&);

// Every speed of the profile and where it is from.
std::string explain_speeds(const Profile&);

// Why the work does not fit: the same table, the bytes missing, and what would help.
std::string explain_refusal(const Plan& closest, const Wishes&);

}  // namespace ebb::plan
