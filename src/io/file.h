// Files as the rest of Ebb sees them. The room `io` moves bytes between memory and storage and
// checks every completion; it knows nothing of what the bytes mean. It serves `text`, `checkpoint`
// and the disk tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "ebb/units.h"

namespace ebb::io {

// What tells whether a file has been written to: two equal stamps of one file, and it has not, as
// far as its file system's clock can tell (some count only seconds).
struct FileStamp {
  Bytes size = 0;
  // Of the last change of its content, since 1970.
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};

// An open file. Positional: there is no cursor, so several threads may read and write at once;
// overlapping writes at the same time leave either's bytes. Closing (the destructor) does not
// sync: what was not synced may be lost in a crash. Every failure is an IoError that names the
// path, the offset, the bytes wanted and got, and what to do.
class File {
 public:
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Fills all of `to` from `offset`, or throws; on a throw the content of `to` is unspecified.
  virtual void read(Bytes offset, std::span<std::byte> to) = 0;

  // Writes all of `from` at `offset`, growing the file where needed, or throws; on a throw any
  // prefix may have been written. Only for files that were made with FileSystem::create.
  virtual void write(Bytes offset, std::span<const std::byte> from) = 0;

  // Returns when everything written to this file, also through other handles, would survive a loss
  // of power. After a failed sync the file must be written anew: the system may have dropped the
  // bytes it could not store.
  virtual void sync() = 0;

  // As it is now, also where others write to it.
  virtual FileStamp stamp() const = 0;
  Bytes size() const { return stamp().size; }

  // As given when the file was opened; a later rename does not change it.
  const std::filesystem::path& path() const { return path_; }

 protected:
  explicit File(std::filesystem::path path) : path_(std::move(path)) {}

 private:
  std::filesystem::path path_;
};

}  // namespace ebb::io
