#include "io/fault_file_system.h"

#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "io/durable_image.h"
#include "io/failure.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;

enum class Operation { read, write, sync, rename, other };

struct Order {
  Operation operation;
  std::int64_t nth;
  int code;
  bool half;
};

// How an operation ends: code 0 is success.
struct Outcome {
  int code = 0;
  bool half = false;
};

[[noreturn]] void throw_crashed(std::string_view attempt, const fs::path& path) {
  throw IoError(
      fmt::format("cannot {} '{}': the crash that was ordered has happened. Take the "
                  "order away, or open the files with another file system.",
                  attempt, path.string()));
}

}  // namespace

class FaultFileSystem::State {
 public:
  State(FileSystem& wrapped, const fs::path& watched) {
    if (!watched.empty()) image_.emplace(wrapped, watched);
  }

  void add(const Order& order) {
    std::lock_guard lock(mutex_);
    orders_.push_back(order);
  }

  void crash_at(std::int64_t nth) {
    std::lock_guard lock(mutex_);
    crash_at_ = nth;
  }

  Outcome count(Operation operation, std::string_view attempt, const fs::path& path) {
    std::lock_guard lock(mutex_);
    if (crashed_) throw_crashed(attempt, path);
    ++counts_.operations;
    if (counts_.operations == crash_at_) {
      crashed_ = true;
      if (operation != Operation::write) throw_crashed(attempt, path);
      return {EIO, true};
    }
    const std::int64_t nth = operation == Operation::write    ? ++counts_.writes
                             : operation == Operation::sync   ? ++counts_.syncs
                             : operation == Operation::rename ? ++counts_.renames
                                                              : 0;
    return ordered(operation, nth);
  }

  // The errno value that the read is to fail with; 0 is success. What reads changes nothing, so it
  // is no operation at which a crash could be told from one at the next.
  int count_read() {
    std::lock_guard lock(mutex_);
    return ordered(Operation::read, ++counts_.reads).code;
  }

  // Counts any operation that happens wholly or not at all, and fails it on demand.
  void count_or_throw(Operation operation, std::string_view attempt, const fs::path& path) {
    const Outcome outcome = count(operation, attempt, path);
    if (outcome.code != 0) throw_failure(attempt, path, outcome.code);
  }

  // Calls tell(image), if a folder is watched.
  template <class Tell>
  auto watch(Tell tell) {
    std::lock_guard lock(mutex_);
    using Result = decltype(tell(*image_));
    if constexpr (std::is_void_v<Result>) {
      if (image_) tell(*image_);
    } else {
      return image_ ? tell(*image_) : Result{DurableImage::kNone};
    }
  }

  std::optional<DurableImage> image() const {
    std::lock_guard lock(mutex_);
    return image_;
  }

  Counts counts() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }

  bool crashed() const {
    std::lock_guard lock(mutex_);
    return crashed_;
  }

 private:
  // Needs the lock.
  Outcome ordered(Operation operation, std::int64_t nth) const {
    for (const Order& order : orders_) {
      if (order.operation == operation && order.nth == nth) return {order.code, order.half};
    }
    return {};
  }

  mutable std::mutex mutex_;
  Counts counts_;
  std::vector<Order> orders_;
  std::int64_t crash_at_ = 0;
  bool crashed_ = false;
  std::optional<DurableImage> image_;
};

class FaultFileSystem::FaultFile final : public File {
 public:
  FaultFile(std::unique_ptr<File> wrapped, std::shared_ptr<State> state, DurableImage::Node node)
      : File(wrapped->path()),
        wrapped_(std::move(wrapped)),
        state_(std::move(state)),
        node_(node) {}

  void read(Bytes offset, std::span<std::byte> to) override {
    if (const int code = state_->count_read(); code != 0) {
      throw_failure("read", path(), code, Transfer{offset, static_cast<Bytes>(to.size()), 0});
    }
    wrapped_->read(offset, to);
  }

  void write(Bytes offset, std::span<const std::byte> from) override {
    const Outcome outcome = state_->count(Operation::write, "write", path());
    const std::size_t put = outcome.code == 0 ? from.size() : outcome.half ? from.size() / 2 : 0;
    if (put > 0) {
      state_->watch([&](DurableImage& image) { image.written(node_); });
      wrapped_->write(offset, from.first(put));
    }
    if (outcome.code != 0) {
      throw_failure("write", path(), outcome.code,
                    Transfer{offset, static_cast<Bytes>(from.size()), static_cast<Bytes>(put)});
    }
  }

  void sync() override {
    state_->count_or_throw(Operation::sync, "sync", path());
    if (node_ == DurableImage::kNone) return wrapped_->sync();
    state_->watch([&](DurableImage& image) {
      std::string content(to_size(wrapped_->size()), '\0');
      wrapped_->read(0, std::as_writable_bytes(std::span(content)));
      image.synced(node_, std::move(content));
    });
  }

  FileStamp stamp() const override { return wrapped_->stamp(); }

 private:
  std::unique_ptr<File> wrapped_;
  std::shared_ptr<State> state_;
  DurableImage::Node node_;  // its name may change
};

FaultFileSystem::FaultFileSystem(FileSystem& wrapped, const fs::path& watched)
    : wrapped_(wrapped), state_(std::make_shared<State>(wrapped, watched)) {}
FaultFileSystem::~FaultFileSystem() = default;

void FaultFileSystem::fail_read(std::int64_t nth, int code) {
  state_->add({Operation::read, nth, code, false});
}
void FaultFileSystem::fail_write(std::int64_t nth, int code) {
  state_->add({Operation::write, nth, code, false});
}
void FaultFileSystem::cut_write(std::int64_t nth, int code) {
  state_->add({Operation::write, nth, code, true});
}
void FaultFileSystem::fail_sync(std::int64_t nth, int code) {
  state_->add({Operation::sync, nth, code, false});
}
void FaultFileSystem::fail_rename(std::int64_t nth, int code) {
  state_->add({Operation::rename, nth, code, false});
}
void FaultFileSystem::crash_at(std::int64_t nth) { state_->crash_at(nth); }

void FaultFileSystem::after_each_loss(FunctionRef<void(const std::string& what)> look,
                                      bool one_by_one) {
  const std::optional<DurableImage> image = state_->image();
  if (!image) throw ConfigError("no folder is watched: say which when the file system is made");
  const std::vector<std::string> changes = image->pending();
  image->restore(wrapped_, [](std::size_t) { return false; });
  look("lost: no name");
  if (changes.empty()) return;
  image->restore(wrapped_, [](std::size_t) { return true; });
  look("lost: all changes of names");
  if (changes.size() == 1 || !one_by_one) return;
  for (std::size_t one = 0; one < changes.size(); ++one) {
    image->restore(wrapped_, [&](std::size_t index) { return index == one; });
    look("lost: " + changes[one]);
    image->restore(wrapped_, [&](std::size_t index) { return index != one; });
    look("lost: all changes of names but " + changes[one]);
  }
}

FaultFileSystem::Counts FaultFileSystem::counts() const { return state_->counts(); }
bool FaultFileSystem::crashed() const { return state_->crashed(); }

std::unique_ptr<File> FaultFileSystem::open(const fs::path& path) {
  std::unique_ptr<File> file = wrapped_.open(path);
  const auto node = state_->watch([&](const DurableImage& image) { return image.find(path); });
  return std::make_unique<FaultFile>(std::move(file), state_, node);
}

std::unique_ptr<File> FaultFileSystem::create(const fs::path& path) {
  state_->count_or_throw(Operation::other, "create", path);
  std::unique_ptr<File> file = wrapped_.create(path);
  const auto node = state_->watch([&](DurableImage& image) { return image.file_created(path); });
  return std::make_unique<FaultFile>(std::move(file), state_, node);
}

bool FaultFileSystem::exists(const fs::path& path) { return wrapped_.exists(path); }
bool FaultFileSystem::is_directory(const fs::path& path) { return wrapped_.is_directory(path); }
bool FaultFileSystem::is_file(const fs::path& path) { return wrapped_.is_file(path); }
bool FaultFileSystem::is_link(const fs::path& path) { return wrapped_.is_link(path); }

std::vector<fs::path> FaultFileSystem::list(const fs::path& directory) {
  return wrapped_.list(directory);
}

void FaultFileSystem::make_directory(const fs::path& directory) {
  if (wrapped_.is_directory(directory)) return;
  state_->count_or_throw(Operation::other, "make the folder", directory);
  wrapped_.make_directory(directory);
  state_->watch([&](DurableImage& image) { image.folder_made(directory); });
}

void FaultFileSystem::rename(const fs::path& from, const fs::path& to) {
  state_->count_or_throw(Operation::rename, fmt::format("rename to '{}'", to.filename().string()),
                         from);
  wrapped_.rename(from, to);
  state_->watch([&](DurableImage& image) { image.renamed(from, to); });
}

void FaultFileSystem::remove_all(const fs::path& path) {
  // A link is removed, never followed.
  const bool link = wrapped_.is_link(path);
  if (!link && !wrapped_.exists(path)) return;
  if (!link && wrapped_.is_directory(path)) {
    for (const fs::path& entry : wrapped_.list(path)) remove_all(entry);
  }
  state_->count_or_throw(Operation::other, "remove", path);
  wrapped_.remove_all(path);
  state_->watch([&](DurableImage& image) { image.removed(path); });
}

Bytes FaultFileSystem::available(const fs::path& path) { return wrapped_.available(path); }

void FaultFileSystem::sync_directory(const fs::path& directory) {
  state_->count_or_throw(Operation::sync, "sync", directory);
  const auto node = state_->watch([&](const DurableImage& image) { return image.find(directory); });
  if (node == DurableImage::kNone) return wrapped_.sync_directory(directory);
  state_->watch([&](DurableImage& image) { image.folder_synced(directory); });
}

}  // namespace ebb::io
