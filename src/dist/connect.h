// From a launch to a communicator: through what its ranks find each other by.
#pragma once

#include "dist/communicator.h"
#include "dist/launch.h"

namespace ebb::dist {

// Returns when all ranks are there. Throws ConfigError where this build has no way, or where those
// that came are not those that were launched.
std::unique_ptr<Communicator> connect(const Launch& launch);

}  // namespace ebb::dist
