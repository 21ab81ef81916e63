#include "text/data/read_ahead.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/seconds_since.h"
#include "ebb/error.h"

#include "text/data/chat_text.h"

namespace ebb::text {

ReadAhead::ReadAhead(const DataSet& data, Order order, AheadBounds bounds)
    : data_(data), most_tokens_(bounds.tokens), order_(std::move(order)) {
  if (bounds.items < 1 || bounds.workers < 1) {
    throw ConfigError(
        fmt::format("cannot read {} items ahead with {} workers; give at least 1 of each",
                    bounds.items, bounds.workers));
  }
  slots_.resize(bounds.items);
  workers_.reserve(bounds.workers);
  for (int i = 0; i < bounds.workers; ++i) {
    workers_.emplace_back([this](std::stop_token stop) { work(std::move(stop)); });
  }
}

ReadAhead::~ReadAhead() {
  // All are told before any is joined, or the others would go on filling the ring meanwhile.
  for (std::jthread& worker : workers_) worker.request_stop();
}

bool ReadAhead::may_claim() const {
  const std::int64_t held = claimed_ - taken_;
  // One item may always be on its way, however long those are that wait.
  return !closed_ && held < slots_.count() && (held == 0 || waiting_tokens_ < most_tokens_);
}

void ReadAhead::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    // Looks at the stop first: with a slot free the wait alone would never notice it.
    if (stop.stop_requested() || !free_.wait(lock, stop, [this] { return may_claim(); })) return;
    const std::int64_t ticket = claimed_++;
    Slot made;
    try {
      if (const std::optional<Visit> visit = order_()) {
        lock.unlock();
        made.item = {visit->at, data_.read(visit->item)};
        made.item.item.tokens.shrink_to_fit();
        made.state = State::ready;
      } else {
        made.state = State::end;
      }
    } catch (...) {
      made.state = State::failed;
      made.error = std::current_exception();
    }
    if (!lock.owns_lock()) lock.lock();

    // Tickets are claimed in order, so those before a failed one are made or being made: next()
    // still hands them out before it throws.
    if (made.state != State::ready) closed_ = true;
    waiting_tokens_ += static_cast<std::int64_t>(made.item.item.tokens.size());
    slot(ticket) = std::move(made);
    ready_.notify_one();
  }
}

std::optional<VisitedItem> ReadAhead::next() {
  std::unique_lock lock(mutex_);
  Slot& wanted = slot(taken_);
  const auto is_made = [&wanted] { return wanted.state != State::empty; };
  if (!is_made()) {
    const auto start = std::chrono::steady_clock::now();
    ready_.wait(lock, is_made);
    waited_seconds_ += seconds_since(start);
  }
  if (wanted.state == State::failed) std::rethrow_exception(wanted.error);
  if (wanted.state == State::end) return std::nullopt;
  VisitedItem item = std::exchange(wanted, Slot{}).item;
  ++taken_;
  waiting_tokens_ -= static_cast<std::int64_t>(item.item.tokens.size());
  free_.notify_all();
  return item;
}

Bytes ReadAhead::memory_bytes(const DataSet& data, const AheadBounds& bounds) {
  // Two more have been taken: one is laid into rows, one was looked at for a target.
  return bounds.items * static_cast<Bytes>(sizeof(Slot)) + 4 * bounds.tokens +
         (bounds.workers + 2) * reading_bytes(data);
}

double ReadAhead::waited_seconds() const {
  std::lock_guard lock(mutex_);
  return waited_seconds_;
}

Bytes reading_bytes(const DataSet& data) {
  // Its bytes, a few copies of them as JSON values and rendered text, at most a token of four bytes
  // for each of them in up to three vectors that grow by doubling, and a block of the file.
  Bytes bytes = 32 * data.largest_item() + 64 * kKiB;
  // Where a template writes earlier turns in another way, each answer has its own text.
  if (data.find(Form::conversations)) {
    bytes += std::min<Bytes>(4 * kMostPartsGrowth * data.largest_item(), 8 * kMostPartsText);
  }
  return bytes;
}

}  // namespace ebb::text
