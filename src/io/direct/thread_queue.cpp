#include "io/direct/thread_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>

#include "base/to_size.h"

namespace ebb::io {
namespace {

// More do not make a drive faster: a piece is large.
constexpr int kMostThreads = 8;

}  // namespace

// With the descriptor itself: the file object may be gone when a stalled thread comes back.
struct ThreadQueue::Job {
  Direction direction = Direction::read;
  int descriptor = -1;
  Bytes offset = 0;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::size_t tag = 0;
};

// Owned by the queue and by each thread, so that it outlives those that are left behind.
struct ThreadQueue::Shared {
  std::mutex mutex;
  std::condition_variable wake;      // workers: something to do, or the end
  std::condition_variable answered;  // the caller: something has finished
  std::vector<Job> waiting;          // this and `finished`: first in, first out, at most depth
  std::vector<Completion> finished;
  int working = 0;  // jobs that are in neither
  bool stopping = false;
};

ThreadQueue::ThreadQueue(const QueueOptions& options)
    : AsyncQueue(options), shared_(std::make_shared<Shared>()) {
  shared_->waiting.reserve(to_size(options.depth));
  shared_->finished.reserve(to_size(options.depth));
  const int threads = std::min(options.depth, kMostThreads);
  workers_.reserve(to_size(threads));
  try {
    for (int i = 0; i < threads; ++i) workers_.emplace_back(work, shared_);
  } catch (...) {
    stop();
    throw;
  }
}

ThreadQueue::~ThreadQueue() { stop(); }

void ThreadQueue::stop() noexcept {
  bool all_come_back = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    all_come_back = shared_->working == 0;
  }
  shared_->wake.notify_all();
  for (std::thread& worker : workers_) {
    if (all_come_back) {
      worker.join();
    } else {
      worker.detach();
    }
  }
}

void ThreadQueue::start(Direction direction, const DirectRequest& piece, std::size_t tag) noexcept {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.push_back({direction, piece.file->descriptor(), piece.offset, piece.memory,
                                to_size(piece.bytes), tag});
  }
  shared_->wake.notify_one();
}

auto ThreadQueue::wait(std::chrono::milliseconds most) noexcept -> std::optional<Completion> {
  std::unique_lock lock(shared_->mutex);
  auto& finished = shared_->finished;
  if (!shared_->answered.wait_for(lock, most, [&] { return !finished.empty(); })) {
    return std::nullopt;
  }
  const Completion completion = finished.front();
  finished.erase(finished.begin());
  return completion;
}

void ThreadQueue::abandon() noexcept {
  const std::lock_guard lock(shared_->mutex);
  shared_->waiting.clear();
}

std::int64_t ThreadQueue::transfer(const Job& job) {
  const ssize_t result = job.direction == Direction::read
                             ? ::pread(job.descriptor, job.memory, job.bytes, job.offset)
                             : ::pwrite(job.descriptor, job.memory, job.bytes, job.offset);
  return result < 0 ? -errno : result;
}

void ThreadQueue::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->wake.wait(lock, [&] { return shared->stopping || !shared->waiting.empty(); });
    if (shared->stopping) return;
    const Job job = shared->waiting.front();
    shared->waiting.erase(shared->waiting.begin());
    ++shared->working;
    lock.unlock();
    const std::int64_t result = transfer(job);
    lock.lock();
    --shared->working;
    shared->finished.push_back({job.tag, result});
    shared->answered.notify_one();
  }
}

}  // namespace ebb::io
