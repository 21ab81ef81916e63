#include "text/data/read_only_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "ebb/error.h"

namespace ebb::text {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

ReadOnlyFile::ReadOnlyFile(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw IoError(fmt::format("cannot open '{}': {}; make it readable or leave it out of the data",
                              path_.string(), reason(errno)));
  }
}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

ReadOnlyFile& ReadOnlyFile::operator=(ReadOnlyFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::int64_t ReadOnlyFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    throw IoError(fmt::format("cannot tell the size of '{}': {}", path_.string(), reason(errno)));
  }
  return status.st_size;
}

std::size_t ReadOnlyFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                offset + static_cast<std::int64_t>(done));
    if (got == 0) break;
    if (got < 0) {
      if (errno == EINTR) continue;
      throw IoError(fmt::format("cannot read {} bytes at offset {} of '{}': {}; check the disk",
                                out.size() - done, offset + static_cast<std::int64_t>(done),
                                path_.string(), reason(errno)));
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace ebb::text
