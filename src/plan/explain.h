// A plan in words: tables for people.
#pragma once

#include <map>
#include <string>

#include "plan/candidate.h"

namespace ebb::plan {

// Bytes over the limits, all tiers added up.
Bytes missing_bytes(const Plan&);

// Bytes by purpose at the moment at which most is alive on the tier.
std::map<Purpose, Bytes> bytes_at_peak(const Plan&, Tier);

// Bytes by purpose on each tier, and what the limits are.
std::string memory_table(const Plan&);

// How long each lane is busy in a step, compute also by what with, and how long it stood still for
// the others.
std::string lane_table(const Plan&, bool with_idle = true);
// The lane that is busy longest, and what compute does longest.
std::string bound_by(const Plan&);

// Bytes by purpose on each tier, what a step costs on which lane and what is exposed.
std::string explain(const Plan&);

// Every speed of the profile and where it is from.
std::string explain_speeds(const Profile&);

}  // namespace ebb::plan
