#include "io/direct/disk_advice.h"

#include <cerrno>

namespace ebb::io {

std::string_view disk_advice(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return " Free room on that drive, or choose a folder on another one with --disk.";
    case EFBIG:
      return " The file system or a limit (ulimit -f) allows no file of that size: raise it, or "
             "choose a folder on another drive with --disk.";
    case EIO:
      return " The drive or its file system fails: look into the kernel log (dmesg), and choose a "
             "folder on another drive with --disk.";
    case ENOENT: return " Make the folder, or choose another one with --disk.";
    case ENOTDIR: return " Give the path of a folder with --disk.";
    case EACCES:
    case EPERM: return " Change its permissions, or choose another folder with --disk.";
    case EROFS: return " It is mounted read-only: choose a folder on another drive with --disk.";
    case EMFILE:
    case ENFILE: return " Raise the limit on open files (ulimit -n).";
    case EINVAL:
      return " Direct transfers need offset, length and address in multiples of the drive's block, "
             "at most 4096 bytes.";
    default: return "";
  }
}

}  // namespace ebb::io
