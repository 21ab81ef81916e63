// The one pool of CPU workers of a run. Any lane may call parallel_for; calls from several lanes at
// once share the workers. Work is split by index, never by thread, so results cannot depend on the
// number of threads as long as a body depends on its index alone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace ebb {

class ThreadPool {
 public:
  // `threads` counts the caller: ThreadPool(1) starts no thread at all.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // How many bodies of one call can run at once; `slot` is below it, and no two bodies of one call
  // that run at the same time have the same slot. Scratch memory is kept per slot.
  int slots() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(index, slot) for 0 <= index < count and returns when all have ended. The first
  // exception ends the handing out of further indices and is rethrown here. Not to be nested.
  void parallel_for(std::int64_t count, FunctionRef<void(std::int64_t index, int slot)> body);

 private:
  struct Job;
  void stop();
  void work(int slot);
  Job* claim_open_job();
  void wake_for(std::int64_t indices);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job*> open_;  // jobs that still have indices to hand out
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ebb
