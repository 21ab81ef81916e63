#include "io/posix_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "io/failure.h"

namespace ebb::io {
namespace {

namespace fs = std::filesystem;

// One call moves at most this much; Linux itself stops a little below 2 GiB.
constexpr std::size_t kMostPerCall = std::size_t{1} << 30;

template <class Call>
auto retry_interrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return number_; }

 private:
  int number_;
};

Descriptor open_descriptor(const fs::path& path, int flags, std::string_view attempt) {
  const int number =
      retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (number < 0) throw_failure(attempt, path, errno);
  return Descriptor(number);
}

struct stat status_of(const Descriptor& descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) throw_failure("ask for the size of", path, errno);
  return status;
}

// Nothing where the path does not lead to anything.
std::optional<struct stat> try_status_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  throw_failure("look up", path, errno);
}

class PosixFile final : public File {
 public:
  PosixFile(fs::path path, Descriptor descriptor)
      : File(std::move(path)), descriptor_(std::move(descriptor)) {}

  void read(Bytes offset, std::span<std::byte> to) override {
    for (std::size_t done = 0; done < to.size();) {
      const std::size_t piece = std::min(to.size() - done, kMostPerCall);
      const ssize_t got = retry_interrupted([&] {
        return ::pread(descriptor_.get(), to.data() + done, piece,
                       offset + static_cast<Bytes>(done));
      });
      if (got < 0) throw_failure("read", path(), errno, transfer(offset, to.size(), done));
      if (got == 0) throw_end_of_file(transfer(offset, to.size(), done));
      done += to_size(got);
    }
  }

  void write(Bytes offset, std::span<const std::byte> from) override {
    for (std::size_t done = 0; done < from.size();) {
      const std::size_t piece = std::min(from.size() - done, kMostPerCall);
      const ssize_t put = retry_interrupted([&] {
        return ::pwrite(descriptor_.get(), from.data() + done, piece,
                        offset + static_cast<Bytes>(done));
      });
      // A write of nothing would loop for ever; no sane file system does it with space left.
      if (put <= 0) {
        throw_failure("write", path(), put < 0 ? errno : ENOSPC,
                      transfer(offset, from.size(), done));
      }
      done += to_size(put);
    }
  }

  void sync() override {
    if (retry_interrupted([&] { return ::fsync(descriptor_.get()); }) != 0) {
      throw_failure("sync", path(), errno);
    }
  }

  FileStamp stamp() const override {
    const struct stat status = status_of(descriptor_, path());
    return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }

 private:
  static Transfer transfer(Bytes offset, std::size_t wanted, std::size_t got) {
    return {offset, static_cast<Bytes>(wanted), static_cast<Bytes>(got)};
  }

  [[noreturn]] void throw_end_of_file(const Transfer& transfer) const {
    throw IoError(
        fmt::format("cannot read '{}' at offset {}: wanted {} bytes, got {}: the file ends there, "
                    "at {} bytes. "
                    "It was cut short while it was written, copied or downloaded: get it again.",
                    path().string(), transfer.offset, transfer.wanted, transfer.got, size()),
        path().string(), transfer.offset);
  }

  Descriptor descriptor_;
};

}  // namespace

std::unique_ptr<File> PosixFileSystem::open(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  Descriptor descriptor = open_descriptor(path, O_RDONLY | O_NONBLOCK, "open");
  if (!S_ISREG(status_of(descriptor, path).st_mode)) {
    throw IoError(
        fmt::format("cannot open '{}': it is not a regular file. Give the path of a file.",
                    path.string()),
        path.string());
  }
  return std::make_unique<PosixFile>(path, std::move(descriptor));
}

std::unique_ptr<File> PosixFileSystem::create(const fs::path& path) {
  return std::make_unique<PosixFile>(path,
                                     open_descriptor(path, O_RDWR | O_CREAT | O_TRUNC, "create"));
}

bool PosixFileSystem::exists(const fs::path& path) { return try_status_of(path).has_value(); }

bool PosixFileSystem::is_directory(const fs::path& path) {
  const auto status = try_status_of(path);
  return status && S_ISDIR(status->st_mode);
}

bool PosixFileSystem::is_file(const fs::path& path) {
  const auto status = try_status_of(path);
  return status && S_ISREG(status->st_mode);
}

bool PosixFileSystem::is_link(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::symlink_status(path, failure);
  if (failure && status.type() != fs::file_type::not_found) {
    throw_failure("look up", path, failure.value());
  }
  return fs::is_symlink(status);
}

std::vector<fs::path> PosixFileSystem::list(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code failure;
  fs::directory_iterator iterator(directory, failure);
  for (; !failure && iterator != fs::directory_iterator(); iterator.increment(failure)) {
    entries.push_back(iterator->path());
  }
  if (failure) throw_failure("list", directory, failure.value());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void PosixFileSystem::make_directory(const fs::path& directory) {
  // Another process may make it at the same time, which is as good.
  if (::mkdir(directory.c_str(), 0777) != 0 && (errno != EEXIST || !is_directory(directory))) {
    throw_failure("make the folder", directory, errno);
  }
}

void PosixFileSystem::rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  const int code = errno;
  throw_failure(fmt::format("rename to '{}'", to.filename().string()), from, code);
}

void PosixFileSystem::remove_all(const fs::path& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure) throw_failure("remove", path, failure.value());
}

Bytes PosixFileSystem::available(const fs::path& path) {
  struct statvfs disk {};
  if (retry_interrupted([&] { return ::statvfs(path.c_str(), &disk); }) != 0) {
    throw_failure("ask for the space beside", path, errno);
  }
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<Bytes>::max());
  const std::uint64_t unit = std::max<std::uint64_t>(1, disk.f_frsize);
  return static_cast<Bytes>(std::min<std::uint64_t>(disk.f_bavail, most / unit) * unit);
}

void PosixFileSystem::sync_directory(const fs::path& directory) {
  const Descriptor descriptor = open_descriptor(directory, O_RDONLY | O_DIRECTORY, "open");
  if (retry_interrupted([&] { return ::fsync(descriptor.get()); }) == 0) return;
  // Some network file systems refuse to sync a folder because its names are already durable.
  if (errno != EINVAL && errno != ENOTSUP) throw_failure("sync", directory, errno);
}

}  // namespace ebb::io
