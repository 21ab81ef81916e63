#include "io/direct/async_queue.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "io/direct/disk_advice.h"

namespace ebb::io {
namespace {

// One piece moves at most this much: more is no faster, and a slow drive with depth of them under
// way must complete one before patience ends.
constexpr Bytes kMostPerPiece = 64 * kMiB;

// The smallest block of any drive: from elsewhere a direct transfer cannot go on.
constexpr Bytes kBoundary = 512;

// Patience is counted in slices, so that time in which the process was stopped (a signal, a laptop
// asleep) counts as one of them and not as the device's.
constexpr int kSlices = 10;

std::string_view verb(Direction direction) {
  return direction == Direction::read ? "read" : "write";
}

DirectRequest rest_of(const DirectRequest& request, Bytes done) {
  return {request.file, request.offset + done, request.memory + done,
          std::min(request.bytes - done, kMostPerPiece)};
}

// Also a write past the end would do something: take room that nobody reserved.
void check_within_file(Direction direction, const DirectRequest& request) {
  const Bytes size = request.file->size();
  if (request.offset >= 0 && request.bytes >= 0 && request.offset <= size &&
      request.bytes <= size - request.offset) {
    return;
  }
  throw IoError(fmt::format(
      "cannot {} the disk tier in '{}' at offset {}: wanted {} bytes, but its file has {}. This is "
      "a fault of the program: report it.",
      verb(direction), request.file->folder().string(), request.offset, request.bytes, size));
}

}  // namespace

AsyncQueue::AsyncQueue(const QueueOptions& options) : options_(options) {
  again_.reserve(to_size(options.depth));
}

void AsyncQueue::run(Direction direction, std::span<const DirectRequest> requests) {
  if (broken_) {
    throw IoError(
        "the disk tier's queue is broken since its drive has not answered. Start again, with "
        "another --disk if it happens again.");
  }
  for (const DirectRequest& request : requests) check_within_file(direction, request);
  progress_.assign(requests.size(), {});
  again_.clear();
  next_ = 0;
  under_way_ = 0;
  failure_.reset();

  for (;;) {
    start_some(direction, requests);
    if (under_way_ == 0) break;
    const auto completion = wait_patiently();
    if (!completion) throw_stalled(direction, requests);
    const std::size_t index = completion->tag;
    std::optional<std::int64_t> result = completion->result;
    if (options_.hook) {
      result = options_.hook(direction, rest_of(requests[index], progress_[index].done), *result);
    }
    if (result) settle(index, requests[index], *result);
  }
  if (failure_) throw IoError(failure_text(direction, requests));
}

// After a failure nothing new begins: run() only waits for the others.
void AsyncQueue::start_some(Direction direction, std::span<const DirectRequest> requests) {
  while (!failure_ && under_way_ < options_.depth) {
    std::size_t index = 0;
    if (!again_.empty()) {
      index = again_.back();
      again_.pop_back();
    } else if (next_ < requests.size()) {
      index = next_++;
      if (requests[index].bytes == 0) continue;
    } else {
      return;
    }
    start(direction, rest_of(requests[index], progress_[index].done), index);
    progress_[index].under_way = true;
    ++under_way_;
  }
}

auto AsyncQueue::wait_patiently() noexcept -> std::optional<Completion> {
  const auto slice = std::max(options_.patience / kSlices, std::chrono::milliseconds(1));
  for (int i = 0; i < kSlices; ++i) {
    if (const auto completion = wait(slice)) return completion;
  }
  return std::nullopt;
}

void AsyncQueue::settle(std::size_t index, const DirectRequest& request, std::int64_t result) {
  Progress& progress = progress_[index];
  progress.under_way = false;
  --under_way_;

  if (result == -EINTR || result == -EAGAIN) {
    const auto now = Clock::now();
    if (!progress.refused_since) progress.refused_since = now;
    if (now - *progress.refused_since > options_.patience) return fail(index, result);
    if (result == -EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    again_.push_back(index);
    return;
  }
  if (result <= 0) return fail(index, result);
  progress.refused_since.reset();
  progress.done += std::min(result, request.bytes - progress.done);
  if (progress.done == request.bytes) return;
  if (request.file->direct() && progress.done % kBoundary != 0) return fail(index, result);
  again_.push_back(index);
}

// Of several failures the first in the order of requests is told.
void AsyncQueue::fail(std::size_t index, std::int64_t result) {
  if (!failure_ || index < failure_->index) failure_ = Failure{index, result};
}

void AsyncQueue::throw_stalled(Direction direction, std::span<const DirectRequest> requests) {
  broken_ = true;
  abandon();
  const auto first = std::find_if(progress_.begin(), progress_.end(),
                                  [](const Progress& progress) { return progress.under_way; });
  const DirectRequest& request = requests[to_size(first - progress_.begin())];
  throw IoError(fmt::format(
      "cannot {} the disk tier in '{}' at offset {}: wanted {} bytes, got {}: the drive has not "
      "answered for {:g} s (transfers under way: {}). Look into the kernel log (dmesg), check "
      "the drive, and start again, with another --disk if it happens again.{}{}",
      verb(direction), request.file->folder().string(), request.offset, request.bytes, first->done,
      std::chrono::duration<double>(options_.patience).count(), under_way_,
      failure_ ? " Before that: " : "", failure_ ? failure_text(direction, requests) : ""));
}

std::string AsyncQueue::failure_text(Direction direction,
                                     std::span<const DirectRequest> requests) const {
  const DirectRequest& request = requests[failure_->index];
  std::string text = fmt::format(
      "cannot {} the disk tier in '{}' at offset {}: wanted {} bytes, got {}: ", verb(direction),
      request.file->folder().string(), request.offset, request.bytes,
      progress_[failure_->index].done);
  if (failure_->result < 0) {
    const int code = static_cast<int>(-failure_->result);
    return text + std::generic_category().message(code) + "." + std::string(disk_advice(code));
  }
  if (failure_->result > 0) {
    return text + "the transfer ended off a block's boundary, where a direct one cannot go on." +
           std::string(disk_advice(EIO));
  }
  return direction == Direction::read
             ? text + "the file ends there, so something has cut it." +
                   std::string(disk_advice(EIO))
             : text + "the file system takes no more." + std::string(disk_advice(ENOSPC));
}

}  // namespace ebb::io
