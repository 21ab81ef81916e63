// The queue on Linux's io_uring: no threads of our own, and pages pinned once where memory is
// registered.
#pragma once

#include <memory>
#include <string>

#include "io/direct/direct_queue.h"

namespace ebb::io {

// Null where it cannot be had, with a sentence in `reason` that says why and what to do.
std::unique_ptr<DirectQueue> make_uring_queue(const QueueOptions& options, std::string& reason);

}  // namespace ebb::io
