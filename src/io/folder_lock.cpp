#include "io/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "io/failure.h"

namespace ebb::io {
namespace {

// "process 4711 on host": what the holder wrote, if it came that far.
std::string holder(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  std::string words(text.data(), got > 0 ? to_size(got) : 0);
  words = words.substr(0, words.find('\n'));
  return words.empty() ? "another process" : printable(words, 200);
}

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return host[0] == '\0' ? "this host" : host.data();
}

std::string own_name() { return fmt::format("process {} on {}\n", ::getpid(), host_name()); }

// Whether the file is still the one that has the name: its holder removes it in the end, and a
// process that waited at the old file must not believe to hold the new one.
bool has_name(int descriptor, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, const std::string& what)
    : path_(folder / kName) {
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw_failure("create", path_, errno);
    int code = 0;
    while ((code = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno) == EINTR) {
    }
    if (code == 0 && has_name(descriptor_, path_)) break;
    const std::string by = holder(descriptor_);
    ::close(descriptor_);
    if (code == EWOULDBLOCK) {
      throw ConfigError(
          fmt::format("{}: {} is at work there. Wait until it has ended, or stop it, or give "
                      "another folder.",
                      what, by));
    }
    if (code != 0) throw_failure("lock", path_, code);
  }
  const std::string name = own_name();
  const bool written =
      ::ftruncate(descriptor_, 0) == 0 &&
      ::pwrite(descriptor_, name.data(), name.size(), 0) == static_cast<ssize_t>(name.size());
  if (!written) {
    const int code = errno == 0 ? ENOSPC : errno;
    ::unlink(path_.c_str());
    ::close(descriptor_);
    throw_failure("write", path_, code);
  }
}

bool FolderLock::is_held(const std::filesystem::path& folder) {
  const int descriptor = ::open((folder / kName).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const std::string by = holder(descriptor);
  ::close(descriptor);
  constexpr std::string_view kBefore = "process ";
  int process = 0;
  const auto [rest, code] = std::from_chars(by.data() + std::min(by.size(), kBefore.size()),
                                            by.data() + by.size(), process);
  const bool here = by.starts_with(kBefore) && code == std::errc{} && process > 0 &&
                    std::string_view(rest, by.data() + by.size()) == " on " + host_name();
  return !here || ::kill(process, 0) == 0 || errno != ESRCH;
}

FolderLock::~FolderLock() {
  // Removed while it is held: a moment later the name may be another's.
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace ebb::io
