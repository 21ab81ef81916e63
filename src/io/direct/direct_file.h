// Files of the disk tier: scratch memory on a drive, past the page cache where it can be. They hold
// nothing that outlives the process; what must is `checkpoint`'s.
#pragma once

#include <filesystem>

#include "ebb/units.h"

namespace ebb::io {

// An open file without a name. Its owner keeps it until no request on it is under way; a queue only
// borrows it. Offsets, lengths and addresses of requests must be multiples of the drive's block
// while direct() is true: 4096 serves all drives.
class DirectFile {
 public:
  // Makes a file of `bytes` in an existing folder and takes all its room on the drive, so that no
  // later write finds it full; where the file system cannot reserve room, such a write can. The
  // name is removed at once: however the process ends, the system frees the room and nothing stale
  // stays. Throws IoError that names the folder, the bytes wanted, those available and what to do.
  static DirectFile create(const std::filesystem::path& folder, Bytes bytes);

  ~DirectFile();
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&& other) noexcept;

  int descriptor() const { return descriptor_; }
  Bytes size() const { return size_; }
  const std::filesystem::path& folder() const { return folder_; }

  // False where the file system does not go past the page cache, or is memory itself (tmpfs): then
  // all works, but it takes host memory and any alignment is taken.
  bool direct() const { return direct_; }

 private:
  explicit DirectFile(const std::filesystem::path& folder) : folder_(folder) {}
  void open_unnamed(Bytes bytes);
  void reserve(Bytes bytes);

  std::filesystem::path folder_;
  int descriptor_ = -1;
  Bytes size_ = 0;
  bool direct_ = true;
};

}  // namespace ebb::io
