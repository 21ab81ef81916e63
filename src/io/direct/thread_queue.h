// The queue that works everywhere: blocking reads and writes on a few threads.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "io/direct/async_queue.h"

namespace ebb::io {

class ThreadQueue final : public AsyncQueue {
 public:
  // Starts min(depth, 8) threads.
  explicit ThreadQueue(const QueueOptions& options);

  // Joins them. After a stall a thread may hang in the system for ever: then they are left behind,
  // and touch nothing but what they share and the memory of the requests they hang in.
  ~ThreadQueue() override;

  bool register_memory(std::span<std::byte>) override { return false; }
  std::string_view name() const override { return "threads"; }

 private:
  struct Job;
  struct Shared;

  void start(Direction direction, const DirectRequest& piece, std::size_t tag) noexcept override;
  std::optional<Completion> wait(std::chrono::milliseconds most) noexcept override;
  void abandon() noexcept override;

  void stop() noexcept;
  static std::int64_t transfer(const Job& job);
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> workers_;
};

}  // namespace ebb::io
