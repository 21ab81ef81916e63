#include "io/direct/direct_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/direct/disk_advice.h"

namespace ebb::io {
namespace {

// What is free on the file system, or nothing where it does not say (ramfs has no size).
std::optional<Bytes> room_beside(int descriptor) {
  struct statvfs disk {};
  if (::fstatvfs(descriptor, &disk) != 0 || disk.f_blocks == 0) return std::nullopt;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<Bytes>::max());
  const std::uint64_t unit = std::max<std::uint64_t>(1, disk.f_frsize);
  return static_cast<Bytes>(std::min<std::uint64_t>(disk.f_bavail, most / unit) * unit);
}

// A file system in memory, which is taken from the process's side of the limits. Newer ones (tmpfs
// since Linux 6.6) can be opened as if they were direct.
bool is_memory(int descriptor) {
  struct statfs kind {};
  return ::fstatfs(descriptor, &kind) == 0 &&
         (kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC);
}

[[noreturn]] void throw_not_made(const std::filesystem::path& folder, Bytes bytes,
                                 std::optional<Bytes> available, int code) {
  throw IoError(
      fmt::format("cannot make a file of {} ({} bytes) for the disk tier in '{}'{}: {}.{}",
                  format_bytes(bytes), bytes, folder.string(),
                  available ? fmt::format(", where {} ({} bytes) are available",
                                          format_bytes(*available), *available)
                            : "",
                  std::generic_category().message(code), disk_advice(code)),
      folder.string());
}

int open_new(const std::string& name, int flags) {
  for (;;) {
    const int descriptor =
        ::open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, S_IRUSR | S_IWUSR);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

}  // namespace

DirectFile DirectFile::create(const std::filesystem::path& folder, Bytes bytes) {
  DirectFile file(folder);
  file.open_unnamed(bytes);
  file.reserve(bytes);
  return file;
}

void DirectFile::open_unnamed(Bytes bytes) {
  // A name can be taken: by another process of this number (in another container), or by one that
  // was killed between the two calls below.
  for (int n = 0;; ++n) {
    const std::string name = folder_ / fmt::format(".ebb-tier-{}-{}", ::getpid(), n);
    descriptor_ = open_new(name, direct_ ? O_DIRECT : 0);
    const int code = errno;
    if (descriptor_ >= 0) {
      if (::unlink(name.c_str()) != 0) throw_not_made(folder_, bytes, std::nullopt, errno);
      direct_ = direct_ && !is_memory(descriptor_);
      return;
    }
    if (code == EINVAL && direct_) {
      // The system makes the file before it finds that it cannot be opened so.
      ::unlink(name.c_str());
      direct_ = false;
    } else if (code != EEXIST) {
      throw_not_made(folder_, bytes, std::nullopt, code);
    }
  }
}

void DirectFile::reserve(Bytes bytes) {
  const auto available = room_beside(descriptor_);
  // Asked first: fallocate would fill the disk to the brim before it gives up, and others write
  // there, too.
  if (available && bytes > *available) throw_not_made(folder_, bytes, available, ENOSPC);
  if (bytes == 0) return;
  // Not posix_fallocate: where the file system cannot, it writes a byte to each block, which a
  // direct file refuses.
  int result = 0;
  do {
    result = ::fallocate(descriptor_, 0, 0, bytes);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    result = ::ftruncate(descriptor_, bytes);
  }
  if (result != 0) throw_not_made(folder_, bytes, available, errno);
  size_ = bytes;
}

DirectFile::~DirectFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DirectFile::DirectFile(DirectFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)),
      direct_(other.direct_) {}

DirectFile& DirectFile::operator=(DirectFile&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(direct_, other.direct_);
  return *this;
}

}  // namespace ebb::io
