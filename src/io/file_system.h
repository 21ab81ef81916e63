// Names and folders: what can be opened, created, renamed and removed.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "io/file.h"

namespace ebb::io {

// Any thread may call any function at any time. Every failure is an IoError that names the path and
// says what to do.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // An existing regular file, for reading; folders, pipes and devices are refused.
  virtual std::unique_ptr<File> open(const std::filesystem::path& path) = 0;

  // An empty file for writing and reading; what was there is cut to nothing. Its parent must exist.
  virtual std::unique_ptr<File> create(const std::filesystem::path& path) = 0;

  virtual bool exists(const std::filesystem::path& path) = 0;

  // Follows links; false where nothing is.
  virtual bool is_directory(const std::filesystem::path& path) = 0;

  // A regular file, which open() takes. Follows links; false where nothing is.
  virtual bool is_file(const std::filesystem::path& path) = 0;

  // Whether the name itself is a symbolic link, wherever that leads; false where nothing is.
  virtual bool is_link(const std::filesystem::path& path) = 0;

  // The entries of a folder as `directory / name`, sorted by name, byte by byte.
  virtual std::vector<std::filesystem::path> list(const std::filesystem::path& directory) = 0;

  // One folder, whose parent exists; one that is there already is as good. Durable after
  // sync_directory of the parent.
  virtual void make_directory(const std::filesystem::path& directory) = 0;

  // Makes the folder and its missing parents; the new entries are durable on return.
  void make_directories(const std::filesystem::path& directory);

  // Atomic within one disk: others see the old name or the new one. Replaces a file at `to`; a
  // folder at `to` is replaced only if it is empty. Durable after sync_directory of the parents.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;

  // Removes a file, a link (not what it points to) or a folder with all in it. Nothing there is
  // no failure. Not atomic: a crash can leave a part of a folder.
  virtual void remove_all(const std::filesystem::path& path) = 0;

  // Bytes that this process's user may still write to the disk of an existing path. Quotas and
  // other writers may leave less.
  virtual Bytes available(const std::filesystem::path& path) = 0;

  // Makes names that were created, renamed or removed in the folder durable.
  virtual void sync_directory(const std::filesystem::path& directory) = 0;

 protected:
  FileSystem() = default;
};

// The folder that holds `path`'s name: "." for a bare name.
inline std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace ebb::io
