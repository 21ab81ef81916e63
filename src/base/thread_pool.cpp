#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb {
struct ThreadPool::Job {
  Job(std::int64_t total, FunctionRef<void(std::int64_t, int)> function)
      : body(function), count(total) {}

  FunctionRef<void(std::int64_t, int)> body;
  std::int64_t count;
  std::atomic<std::int64_t> next{0};
  int helpers = 0;             // workers inside run(); guarded by the pool's mutex
  std::exception_ptr failure;  // guarded by the pool's mutex
  std::condition_variable idle;

  // Takes indices until none is left. Returns the exception that stopped it, if any.
  std::exception_ptr run(int slot) {
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
        body(i, slot);
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      return std::current_exception();
    }
    return nullptr;
  }
};

ThreadPool::ThreadPool(int threads) {
  try {
    for (int slot = 1; slot < threads; ++slot) workers_.emplace_back([this, slot] { work(slot); });
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size();
    stop();
    throw DeviceError(
        fmt::format("only {} of {} threads could be started ({}); fewer --threads would do",
                    started + 1, threads, error.what()));
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ThreadPool::Job* ThreadPool::claim_open_job() {
  std::erase_if(open_, [](Job* job) { return job->next.load() >= job->count; });
  return open_.empty() ? nullptr : open_.front();
}

void ThreadPool::work(int slot) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = nullptr;
    wake_.wait(lock, [&] { return stopping_ || (job = claim_open_job()) != nullptr; });
    if (job == nullptr) return;
    ++job->helpers;
    lock.unlock();
    std::exception_ptr failure = job->run(slot);
    lock.lock();
    if (failure && !job->failure) job->failure = failure;
    if (--job->helpers == 0) job->idle.notify_all();
  }
}

// No more than have something to do: a short call on a large machine would spend its time waking.
void ThreadPool::wake_for(std::int64_t indices) {
  if (indices >= std::ssize(workers_)) {
    wake_.notify_all();
  } else {
    for (; indices > 0; --indices) wake_.notify_one();
  }
}

void ThreadPool::parallel_for(std::int64_t count, FunctionRef<void(std::int64_t, int)> body) {
  Job job(count, body);
  const bool shared = count > 1 && !workers_.empty();
  if (shared) {
    {
      std::lock_guard lock(mutex_);
      open_.push_back(&job);
    }
    wake_for(count - 1);
  }
  std::exception_ptr failure = job.run(0);
  if (shared) {
    std::unique_lock lock(mutex_);
    std::erase(open_, &job);
    job.idle.wait(lock, [&] { return job.helpers == 0; });
    if (!failure) failure = job.failure;
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ebb
