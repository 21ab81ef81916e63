#include "text/data/prefetch.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "ebb/error.h"

namespace ebb::text {

Prefetcher::Prefetcher(const Batches& batches, std::int64_t start_position, int ahead, int workers)
    : batches_(batches), start_position_(start_position) {
  if (ahead < 1 || workers < 1) {
    throw ConfigError(
        fmt::format("cannot prepare {} batches ahead with {} workers; give at least "
                    "1 of each",
                    ahead, workers));
  }
  slots_.resize(static_cast<std::size_t>(ahead));
  workers_.reserve(static_cast<std::size_t>(workers));
  for (int i = 0; i < workers; ++i) {
    workers_.emplace_back([this](std::stop_token stop) { work(std::move(stop)); });
  }
}

Prefetcher::~Prefetcher() {
  // All are told before any is joined, or the others would go on filling the queue meanwhile.
  for (std::jthread& worker : workers_) worker.request_stop();
}

void Prefetcher::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto may_claim = [this] {
      return !failed_ && claimed_ - taken_ < static_cast<std::int64_t>(slots_.size());
    };
    // Looks at the stop first: with a slot free the wait alone would never notice it.
    if (stop.stop_requested() || !free_.wait(lock, stop, may_claim)) return;
    const std::int64_t ticket = claimed_++;

    lock.unlock();
    Slot made;
    try {
      made.batch = batches_.make(start_position_ + ticket * batches_.shape().rows);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();

    // Tickets are claimed in order, so those before a failed one are made or being made: next()
    // still hands them out before it throws.
    if (made.error) failed_ = true;
    slot(ticket) = std::move(made);
    ready_.notify_one();
  }
}

Batch Prefetcher::next() {
  std::unique_lock lock(mutex_);
  Slot& wanted = slot(taken_);
  const auto is_ready = [&wanted] { return wanted.batch || wanted.error; };
  if (!is_ready()) {
    const auto start = std::chrono::steady_clock::now();
    ready_.wait(lock, is_ready);
    waited_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (wanted.error) std::rethrow_exception(wanted.error);
  Batch batch = std::move(*wanted.batch);
  wanted.batch.reset();
  ++taken_;
  free_.notify_one();
  return batch;
}

Bytes Prefetcher::memory_bytes() const {
  return static_cast<Bytes>(slots_.size()) * batches_.batch_bytes();
}

double Prefetcher::waited_seconds() const {
  std::lock_guard lock(mutex_);
  return waited_seconds_;
}

}  // namespace ebb::text
