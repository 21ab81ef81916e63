// The share of the machine that this process may use.
#pragma once

#include <string>
#include <string_view>

#include "base/cgroup.h"
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

// What of it is left to be taken now: as the system estimates it, cut down to what the container's
// groups have left.
Bytes available_memory();
// The same of the text of /proc/meminfo. Throws nothing: a text that does not say leaves `groups`'.
Bytes available_memory(std::string_view meminfo, const CgroupLimits& groups);

// Of so much available memory, what a run takes at most where nobody set a limit: less a margin for
// what no limit counts (code, libraries, stacks) and for what other programs come to need.
Bytes less_margin(Bytes available);

}  // namespace ebb
