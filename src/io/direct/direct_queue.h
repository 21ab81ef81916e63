// Many transfers at once between memory and the files of the disk tier. A queue moves bytes and
// checks every completion; it keeps no checksums, as what the bytes should be is not known here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ebb/units.h"
#include "io/direct/direct_file.h"

namespace ebb::io {

// `bytes` between `offset` of the file and `memory`; within the file, and aligned as it asks.
struct DirectRequest {
  const DirectFile* file = nullptr;
  Bytes offset = 0;
  std::byte* memory = nullptr;
  Bytes bytes = 0;
};

enum class Direction : std::uint8_t { read, write };

// For tests of faults. Sees each completion (bytes moved, or -errno) of a request, or of the rest
// of one, before it is believed, on the thread that called run(). Returns what to believe; nothing
// means that it never comes (a device that stalls). May change memory (a disk that lies). Must not
// throw.
using CompletionHook = std::function<std::optional<std::int64_t>(Direction, const DirectRequest&,
                                                                 std::int64_t result)>;

struct QueueOptions {
  int depth = 16;  // transfers under way at once, at least 1
  std::chrono::milliseconds patience = std::chrono::seconds(120);
  CompletionHook hook{};
  bool uring = true;  // false: threads, also where io_uring could be had
};

// One caller at a time, on any thread.
class DirectQueue {
 public:
  virtual ~DirectQueue() = default;
  DirectQueue(const DirectQueue&) = delete;
  DirectQueue& operator=(const DirectQueue&) = delete;

  // Does all of the requests, in no order, and returns when all are done; overlapping ones leave
  // either's bytes. Throws IoError that names folder, offset, bytes wanted and got and what to do
  // if one fails: others may have been done or not, none is under way any more, and the queue can
  // be used again. The memory is the caller's again in each of these cases.
  //
  // If nothing completes for `patience`, the device has stalled: IoError, and every later run()
  // throws at once. Then, and only then, the device may still read or write the memory of the
  // requests at any time: it must not be freed or used for anything else while the process lives.
  virtual void run(Direction direction, std::span<const DirectRequest> requests) = 0;

  // From now on requests that lie within `memory` need not pin its pages each time. The memory must
  // stay where it is while the queue lives. False where the system refuses (the limit on locked
  // memory, an old kernel) or the queue has no use for it: all works without.
  virtual bool register_memory(std::span<std::byte> memory) = 0;

  // A device has stalled: nothing more is done.
  virtual bool broken() const = 0;
  virtual std::string_view name() const = 0;  // "io_uring" or "threads"

 protected:
  DirectQueue() = default;
};

// io_uring where it is built in and the kernel allows it, else threads. `note` (may be null) gets
// one sentence that says why it is not io_uring although `options` asks for it, and what to do;
// nothing otherwise. Throws ConfigError for a depth below 1.
std::unique_ptr<DirectQueue> make_direct_queue(const QueueOptions& options, std::string* note);

}  // namespace ebb::io
