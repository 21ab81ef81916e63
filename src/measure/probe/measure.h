// Measures a machine: everything that a profile has, and tables beside it for people.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "engine/runtime.h"

namespace ebb::measure {

struct Measured {
  plan::Profile profile;
  Json tables;  // the link by size, memory, what lanes do to each other
};

// Takes about so many seconds, more where the machine is slow. `tell` hears what comes next and
// the share that is behind. Binds the runtime's ops to memory that is gone afterwards.
Measured measure_machine(engine::Runtime& runtime, double seconds,
                         const std::function<void(const std::string& now, double done)>& tell);

}  // namespace ebb::measure
