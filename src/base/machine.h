// What this process may use of the machine it runs on.
#pragma once

#include <string>

#include "ebb/units.h"

namespace ebb {

// The most that may be asked for: more than any machine runs at once, few enough to start.
inline constexpr int kMostThreads = 4096;

// The CPUs of its affinity mask, cut down to the container's CPU quota.
int usable_cpus();

// The processor's name as the system has it; empty where it has none.
std::string processor_name();

// What a processor's largest cache holds, or a guess where the system does not say.
Bytes largest_cache();

// The machine's memory, cut down to the container's limit.
Bytes usable_memory();

}  // namespace ebb
