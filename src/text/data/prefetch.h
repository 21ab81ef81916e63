// Prepares batches on threads of its own, so that a training step finds the next one ready.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "ebb/units.h"
#include "text/data/batches.h"

namespace ebb::text {

// One thread takes the batches. The workers end with the object; it waits for the batches that are
// being read at that moment and no others.
class Prefetcher {
 public:
  // Keeps a reference to `batches`. At most `ahead` batches are ready or being made at a time.
  Prefetcher(const Batches& batches, std::int64_t start_position, int ahead, int workers);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The batches from the start position on, in order, whichever worker is done first. Waits for a
  // batch that is not ready. Where making one failed, throws that error, then and ever after.
  Batch next();

  // The most that batches ready or being made occupy at a time: those that next() has handed out
  // are the caller's.
  Bytes memory_bytes() const;

  // The time next() has spent waiting so far.
  double waited_seconds() const;

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void work(std::stop_token stop);
  Slot& slot(std::int64_t ticket) {
    return slots_[static_cast<std::size_t>(ticket) % slots_.size()];
  }

  const Batches& batches_;
  const std::int64_t start_position_;

  // Batches are numbered by tickets from 0. Workers claim them in order, and a ticket's slot is
  // free once the ticket slots_.size() before it was taken.
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable_any free_;
  std::vector<Slot> slots_;
  std::int64_t claimed_ = 0;
  std::int64_t taken_ = 0;
  bool failed_ = false;  // nothing more is claimed
  double waited_seconds_ = 0;

  std::vector<std::jthread> workers_;  // the last member: joined before the rest is gone
};

}  // namespace ebb::text
