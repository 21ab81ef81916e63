// What this process may use of the machine it runs on.
#pragma once

#include <string>

#include "ebb/units.h"

namespace ebb {

// The CPUs of its affinity mask, cut down to the container's CPU quota.
int usable_cpus();

// The processor's name as the system has it; empty where it has none.
std::string processor_name();

// What a processor's largest cache holds, or a guess where the system does not say.
Bytes largest_cache();

// The machine's memory, cut down to the container's limit.
Bytes usable_memory();

}  // namespace ebb
