// The memory of this process, as the system counts it.
#pragma once

#include <optional>
#include <string_view>

#include "ebb/units.h"

namespace ebb {

// Pages that are in memory now: the heap, stacks and mappings of the process's own; code, libraries
// and other files. And the most that both together have been.
struct ProcessMemory {
  Bytes own = 0;
  Bytes files = 0;
  Bytes peak = 0;

  Bytes resident() const { return own + files; }
};

ProcessMemory process_memory();
// The same of the text of /proc/self/status; 0 for what it does not say.
ProcessMemory process_memory(std::string_view status);

// Bytes of the pages between `data`, where one begins, and its end that the system has given memory
// to, which it does when they are first touched. Nothing where the addresses are not the process's.
std::optional<Bytes> pages_touched(const void* data, Bytes bytes);

}  // namespace ebb
