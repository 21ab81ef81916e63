// Reads and tokenizes items ahead of their use, on threads of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/list.h"
#include "ebb/units.h"
#include "text/data/data_set.h"
#include "text/data/order.h"
#include "text/data/packing.h"

namespace ebb::text {

struct AheadBounds {
  // No further item is begun while this many wait ready or are being read, or while those that wait
  // have this many tokens.
  std::int64_t items = 256;
  std::int64_t tokens = 0;
  int workers = 1;
};

// One thread takes the items. The workers end with the object, which waits for the items that are
// being read at that moment.
class ReadAhead {
 public:
  // Keeps a reference to `data`. `order` is called by one worker at a time.
  ReadAhead(const DataSet& data, Order order, AheadBounds bounds);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The items in order, whichever worker is done first; nothing at the end of the order. Waits for
  // an item that is not ready. Where reading one failed, throws that error, then and ever after.
  std::optional<VisitedItem> next();

  // The most that it holds: the items that wait, and what reading one takes in each worker.
  static Bytes memory_bytes(const DataSet& data, const AheadBounds& bounds);

  // The time next() has spent waiting so far.
  double waited_seconds() const;

 private:
  enum class State { empty, ready, failed, end };
  struct Slot {
    State state = State::empty;
    VisitedItem item;
    std::exception_ptr error;
  };

  void work(std::stop_token stop);
  bool may_claim() const;
  Slot& slot(std::int64_t ticket) { return slots_[ticket % slots_.count()]; }

  const DataSet& data_;
  const std::int64_t most_tokens_;

  // Items are numbered by tickets from 0. Workers claim them in order, and a ticket's slot is free
  // once the ticket slots_.size() before it was taken.
  mutable std::mutex mutex_;
  Order order_;
  std::condition_variable ready_;
  std::condition_variable_any free_;
  List<Slot> slots_;
  std::int64_t claimed_ = 0;
  std::int64_t taken_ = 0;
  std::int64_t waiting_tokens_ = 0;
  bool closed_ = false;  // failed or at the end: nothing more is claimed
  double waited_seconds_ = 0;

  List<std::jthread> workers_;  // the last member: joined before the rest is gone
};

// The memory that reading an item takes at most.
Bytes reading_bytes(const DataSet& data);

}  // namespace ebb::text
