#include "io/failure.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::io {
namespace {

std::string_view advice_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return " Free space on that disk, or choose a folder on another one with --out.";
    case EIO:
      return " The disk did not store or return the data: look into the system log (dmesg), check "
             "the disk, and choose a folder on another one with --out.";
    case ENOENT: return " Check the path: nothing is there.";
    case EACCES:
    case EPERM: return " Change the permissions, or choose another folder.";
    case EROFS: return " That disk is mounted read-only: choose a folder on another one.";
    case ENOTEMPTY:
    case EEXIST: return " Move away what is there, or choose another folder.";
    case EXDEV: return " Both names must be on one disk.";
    case EMFILE:
    case ENFILE: return " Raise the limit on open files (ulimit -n).";
    case EBADF: return " The file was opened for reading only.";
    case EFBIG: return " Choose a folder on a disk whose file system takes files of that size.";
    default: return "";
  }
}

}  // namespace

void throw_failure(std::string_view attempt, const std::filesystem::path& path, int code,
                   std::optional<Transfer> transfer) {
  std::string text = fmt::format("cannot {} '{}'", attempt, path.string());
  if (transfer) {
    text += fmt::format(" at offset {}: wanted {} bytes, got {}", transfer->offset,
                        transfer->wanted, transfer->got);
  }
  throw IoError(
      fmt::format("{}: {}.{}", text, std::generic_category().message(code), advice_for(code)),
      path.string(), transfer ? std::optional(transfer->offset) : std::nullopt);
}

}  // namespace ebb::io
