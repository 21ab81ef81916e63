// Ranks that are threads of one process: a receiver copies from the sender's memory.
#pragma once

#include "dist/communicator.h"

namespace ebb::dist {

// One end for each rank. An end that is destroyed has left: whoever waits for it then is told.
List<std::unique_ptr<Communicator>> make_thread_ranks(int count);

}  // namespace ebb::dist
