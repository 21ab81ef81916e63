// Machines that one need not own to plan for: profiles that ship with Ebb.
#pragma once

#include <string_view>

#include "base/list.h"
#include "plan/profile.h"

namespace ebb::plan {

// "rtx-4090", "h200", ...; throws ConfigError that lists them.
Profile machine(std::string_view name);
List<std::string_view> machine_names();

}  // namespace ebb::plan
