// What this process may use of the machine it runs on.
#pragma once

#include "ebb/units.h"

namespace ebb {

// The CPUs of its affinity mask, cut down to the container's CPU quota.
int usable_cpus();

// The machine's memory, cut down to the container's limit.
Bytes usable_memory();

}  // namespace ebb
