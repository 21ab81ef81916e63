// What all queues do with their completions: retry, go on after short ones, fail, and lose
// patience.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "io/direct/direct_queue.h"

namespace ebb::io {

// How a piece of a request gets under way and how its end is heard of is the derived queue's. All
// calls of it come from the thread that called run(). They do not throw: memory of requests under
// way would otherwise be given up too early.
class AsyncQueue : public DirectQueue {
 public:
  void run(Direction direction, std::span<const DirectRequest> requests) final;
  bool broken() const final { return broken_; }

 protected:
  struct Completion {
    std::size_t tag = 0;
    std::int64_t result = 0;  // bytes, or -errno
  };

  explicit AsyncQueue(const QueueOptions& options);

  // Takes a piece, which may begin as late as in wait(). At most depth of them have not completed.
  virtual void start(Direction direction, const DirectRequest& piece, std::size_t tag) noexcept = 0;

  // The next completion, or nothing if none came in this time.
  virtual std::optional<Completion> wait(std::chrono::milliseconds most) noexcept = 0;

  // The device has stalled: what has not begun must not begin any more.
  virtual void abandon() noexcept = 0;

 private:
  using Clock = std::chrono::steady_clock;

  struct Progress {
    Bytes done = 0;
    bool under_way = false;
    std::optional<Clock::time_point> refused_since;  // only EINTR and EAGAIN since then
  };
  struct Failure {
    std::size_t index = 0;
    std::int64_t result = 0;  // -errno, 0, or the bytes of a transfer that ended off a boundary
  };

  void start_some(Direction direction, std::span<const DirectRequest> requests);
  std::optional<Completion> wait_patiently() noexcept;
  void settle(std::size_t index, const DirectRequest& request, std::int64_t result);
  void fail(std::size_t index, std::int64_t result);
  [[noreturn]] void throw_stalled(Direction direction, std::span<const DirectRequest> requests);
  std::string failure_text(Direction direction, std::span<const DirectRequest> requests) const;

  const QueueOptions options_;
  // The progress of one run's requests; kept so that later ones allocate nothing.
  std::vector<Progress> progress_;
  std::vector<std::size_t> again_;  // requests that go on with their rest, at most depth
  std::size_t next_ = 0;            // the first request that has not begun
  int under_way_ = 0;
  std::optional<Failure> failure_;
  bool broken_ = false;
};

}  // namespace ebb::io
