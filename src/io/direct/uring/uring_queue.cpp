#include "io/direct/uring/uring_queue.h"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/to_size.h"
#include "io/direct/async_queue.h"

namespace ebb::io {
namespace {

// The kernel's limit on one registered buffer.
constexpr Bytes kMostRegistered = kGiB;

class UringQueue final : public AsyncQueue {
 public:
  // Takes over a ring that was set up with at least depth entries.
  UringQueue(const QueueOptions& options, const io_uring& ring)
      : AsyncQueue(options), ring_(ring) {}

  // After a stall the kernel keeps what is under way and its files, and ends it when it can.
  ~UringQueue() override { io_uring_queue_exit(&ring_); }

  bool register_memory(std::span<std::byte> memory) override;
  std::string_view name() const override { return "io_uring"; }

 private:
  void start(Direction direction, const DirectRequest& piece, std::size_t tag) noexcept override;
  std::optional<Completion> wait(std::chrono::milliseconds most) noexcept override;
  void abandon() noexcept override {}  // pieces are submitted in wait(), which is not called again

  bool register_all();
  int registered_piece(const DirectRequest& piece) const;

  io_uring ring_;
  std::vector<iovec> registered_;
};

bool UringQueue::register_memory(std::span<std::byte> memory) {
  const std::size_t before = registered_.size();
  for (std::size_t at = 0; at < memory.size();) {
    const std::size_t bytes = std::min(memory.size() - at, to_size(kMostRegistered));
    registered_.push_back({memory.data() + at, bytes});
    at += bytes;
  }
  // The kernel takes one list: a new one replaces the old.
  if (before > 0) io_uring_unregister_buffers(&ring_);
  if (register_all()) return true;
  registered_.resize(before);
  if (!register_all()) registered_.clear();
  return false;
}

bool UringQueue::register_all() {
  if (registered_.empty()) return true;
  return io_uring_register_buffers(&ring_, registered_.data(),
                                   static_cast<unsigned>(registered_.size())) == 0;
}

// Which registered buffer holds all of it, or -1.
int UringQueue::registered_piece(const DirectRequest& piece) const {
  for (std::size_t i = 0; i < registered_.size(); ++i) {
    const auto* begin = static_cast<const std::byte*>(registered_[i].iov_base);
    const auto* end = begin + registered_[i].iov_len;
    if (piece.memory >= begin && piece.memory + piece.bytes <= end) return static_cast<int>(i);
  }
  return -1;
}

void UringQueue::start(Direction direction, const DirectRequest& piece, std::size_t tag) noexcept {
  // Never null: the ring has room for depth, and no more have not completed.
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  const int file = piece.file->descriptor();
  const auto bytes = static_cast<unsigned>(piece.bytes);
  const auto offset = static_cast<std::uint64_t>(piece.offset);
  const int buffer = registered_piece(piece);
  if (direction == Direction::read) {
    if (buffer >= 0) {
      io_uring_prep_read_fixed(entry, file, piece.memory, bytes, offset, buffer);
    } else {
      io_uring_prep_read(entry, file, piece.memory, bytes, offset);
    }
  } else if (buffer >= 0) {
    io_uring_prep_write_fixed(entry, file, piece.memory, bytes, offset, buffer);
  } else {
    io_uring_prep_write(entry, file, piece.memory, bytes, offset);
  }
  entry->user_data = tag;
}

auto UringQueue::wait(std::chrono::milliseconds most) noexcept -> std::optional<Completion> {
  using Clock = std::chrono::steady_clock;
  // What it cannot take now (EAGAIN, or entries behind a bad one) stays for the next call; if it
  // never can, the caller's patience ends.
  io_uring_submit(&ring_);
  const auto end = Clock::now() + most;
  io_uring_cqe* entry = nullptr;
  // A signal may end the system's wait early, and its end may bring a completion all the same.
  while (io_uring_peek_cqe(&ring_, &entry) != 0) {
    const std::chrono::nanoseconds left = end - Clock::now();
    if (left.count() <= 0) return std::nullopt;
    __kernel_timespec time{};
    time.tv_sec = left.count() / 1'000'000'000;
    time.tv_nsec = left.count() % 1'000'000'000;
    io_uring_wait_cqe_timeout(&ring_, &entry, &time);
  }
  const Completion completion{to_size(entry->user_data), entry->res};
  io_uring_cqe_seen(&ring_, entry);
  return completion;
}

std::string remedy_for(int code) {
  switch (code) {
    case EPERM:
    case EACCES:
      return "the system forbids it: allow it with `sysctl kernel.io_uring_disabled=0`, or in the "
             "container's seccomp profile";
    case ENOSYS: return "use Linux 5.11 or later";
    case ENOMEM: return "raise the limit on locked memory (ulimit -l)";
    default: return "choose a smaller depth, or use Linux 5.11 or later";
  }
}

}  // namespace

std::unique_ptr<DirectQueue> make_uring_queue(const QueueOptions& options, std::string& reason) {
  io_uring ring{};
  const int result = io_uring_queue_init(static_cast<unsigned>(options.depth), &ring, 0);
  if (result != 0) {
    reason = fmt::format("io_uring cannot be used ({}): {}.",
                         std::generic_category().message(-result), remedy_for(-result));
    return nullptr;
  }
  // Without it a wait with a timeout takes an entry of the ring, which may be full.
  if ((ring.features & IORING_FEAT_EXT_ARG) == 0) {
    io_uring_queue_exit(&ring);
    reason = "io_uring cannot be used: this kernel is too old; use Linux 5.11 or later.";
    return nullptr;
  }
  return std::make_unique<UringQueue>(options, ring);
}

}  // namespace ebb::io
