#include "io/direct/direct_queue.h"

#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/direct/thread_queue.h"
#include "io/direct/uring/uring_queue.h"

namespace ebb::io {

std::unique_ptr<DirectQueue> make_direct_queue(const QueueOptions& options, std::string* note) {
  if (options.depth < 1) {
    throw ConfigError(fmt::format(
        "the queue of the disk tier has depth {}: give one of at least 1.", options.depth));
  }
  std::unique_ptr<DirectQueue> queue;
  std::string reason;
  if (options.uring) queue = make_uring_queue(options, reason);
  if (note != nullptr) *note = reason;
  return queue ? std::move(queue) : std::make_unique<ThreadQueue>(options);
}

}  // namespace ebb::io
