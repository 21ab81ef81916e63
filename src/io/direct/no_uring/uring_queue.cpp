#include "io/direct/uring/uring_queue.h"

namespace ebb::io {

std::unique_ptr<DirectQueue> make_uring_queue(const QueueOptions&, std::string& reason) {
  reason = "Ebb was built without io_uring: install liburing-dev and build again.";
  return nullptr;
}

}  // namespace ebb::io
