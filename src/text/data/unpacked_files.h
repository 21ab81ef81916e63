// The texts of a data set's compressed files. Items are read in any order, and what is compressed
// can only be read from its beginning: so all of it lies unpacked in one file without a name, which
// is gone with the object, however the process ends.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "ebb/units.h"
#include "io/file_system.h"

namespace ebb::text {

// One file's text in it. Holds on to the file.
struct UnpackedText {
  std::shared_ptr<io::File> file;
  Bytes begin = 0;
  Bytes bytes = 0;
  // Of what was unpacked: the size of the compressed file, and a digest of all its bytes.
  Bytes packed_bytes = 0;
  std::string packed_digest;
};

// For one thread.
class UnpackedFiles {
 public:
  // Nothing is made before the first add(). No folder: the system's for such files. Keeps a
  // reference to `files`.
  UnpackedFiles(io::FileSystem& files, std::filesystem::path folder);

  // Reads all of a compressed file. Told how many of its bytes are read: `progress`, which may be
  // empty. Throws what io::unpack throws, and IoError that names the folder where its disk would be
  // left with less than kLeftFree.
  static constexpr Bytes kLeftFree = kGiB / 4;
  UnpackedText add(const std::filesystem::path& path,
                   const std::function<void(Bytes done, Bytes total)>& progress);

  const std::filesystem::path& folder() const { return folder_; }
  Bytes bytes() const { return end_; }

 private:
  void make();

  io::FileSystem& files_;
  std::filesystem::path folder_;
  std::shared_ptr<io::File> file_;
  Bytes end_ = 0;
};

}  // namespace ebb::text
