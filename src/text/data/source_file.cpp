#include "text/data/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

struct stat status_of(int descriptor, const SourceFile& file) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw IoError(fmt::format("cannot tell the size of {}: {}", file.name(), reason(errno)));
  }
  return status;
}

int open_file(const SourceFile& file) {
  const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw IoError(fmt::format("cannot open {}: {}; make it readable or leave it out of the data",
                              file.name(), reason(errno)));
  }
  return descriptor;
}

// The file's own descriptor, or one for this read alone.
class Opened {
 public:
  Opened(int kept, const SourceFile& file)
      : descriptor_(kept >= 0 ? kept : open_file(file)), own_(kept < 0) {}
  ~Opened() {
    if (own_) ::close(descriptor_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
  bool own_;
};

}  // namespace

SourceFile::SourceFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open_file(*this);
  try {
    const struct stat status = status_of(descriptor_, *this);
    size_ = status.st_size;
    changed_ = status.st_mtim;
  } catch (...) {
    close();
    throw;
  }
}

SourceFile::~SourceFile() { close(); }

SourceFile::SourceFile(SourceFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      changed_(other.changed_) {}

SourceFile& SourceFile::operator=(SourceFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(changed_, other.changed_);
  return *this;
}

std::string SourceFile::name() const { return fmt::format("'{}'", path_.string()); }

void SourceFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void SourceFile::read(Bytes offset, std::span<std::byte> out) const {
  const Opened opened(descriptor_, *this);
  // Where lines begin and what an item holds was found when the file was opened.
  const auto require_unchanged = [&] {
    const struct stat status = status_of(opened.get(), *this);
    if (status.st_size == size_ && status.st_mtim.tv_sec == changed_.tv_sec &&
        status.st_mtim.tv_nsec == changed_.tv_nsec) {
      return;
    }
    throw IoError(fmt::format(
        "{} has changed since the data was opened: it had {} bytes then and has {} "
        "now{}; leave the data as it is during a run, restore the file and resume",
        name(), size_, status.st_size, status.st_size == size_ ? ", written later" : ""));
  };
  require_unchanged();
  for (std::size_t done = 0; done < out.size();) {
    const Bytes at = offset + static_cast<Bytes>(done);
    const ssize_t got = ::pread(opened.get(), out.data() + done, out.size() - done, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw IoError(fmt::format("cannot read {} bytes at offset {} of {}: {}; check the disk",
                                out.size() - done, at, name(), reason(errno)),
                    name(), at);
    }
    if (got == 0) {
      require_unchanged();
      throw IoError(fmt::format("{} ends at offset {}, before its size of {} bytes; check the disk",
                                name(), at, size_),
                    name(), at);
    }
    done += static_cast<std::size_t>(got);
  }
}

std::string SourceFile::read(Bytes offset, Bytes bytes) const {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::optional<Bytes> find_invalid_utf8(const SourceFile& file, Digest& digest) {
  constexpr Bytes block = kMiB;
  constexpr Bytes longest = 4;  // bytes of a character
  Bytes digested = 0;
  for (Bytes first = 0; first < file.size();) {
    const Bytes count = std::min(block, file.size() - first);
    const std::string piece = file.read(first, count);
    digest.add(std::as_bytes(std::span(piece)).subspan(static_cast<std::size_t>(digested - first)));
    digested = first + count;
    const auto at = utf8::find_invalid(piece);
    if (!at) {
      first += count;
      continue;
    }
    // A character may go on in the next block, which then begins with it.
    const Bytes found = first + static_cast<Bytes>(*at);
    const bool cut = first + count < file.size() && found > first + count - longest;
    if (!cut) return found;
    first = found;
  }
  return std::nullopt;
}

Bytes text_begin(const SourceFile& file) {
  return file.size() >= 3 && file.read(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
}

void refuse_wide_text(std::string_view beginning, const SourceFile& file) {
  const bool little = beginning.starts_with("\xff\xfe");
  if (!little && !beginning.starts_with("\xfe\xff")) return;
  throw FormatError(
      fmt::format("{} begins with the byte order mark of UTF-16 ({}); Ebb reads UTF-8. Convert it, "
                  "for example with: iconv -f UTF-16 -t UTF-8 FILE > NEW",
                  file.name(), little ? "FF FE" : "FE FF"));
}

}  // namespace ebb::text
