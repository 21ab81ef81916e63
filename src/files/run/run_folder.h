// The folder of a run (--out): it belongs to one process, can be written to, and is empty or has
// something to go on from.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/note.h"
#include "io/file_system.h"
#include "io/folder_lock.h"

namespace ebb::files {

class RunFolder {
 public:
  // Makes the folder where it is missing and holds it until destroyed. With `resume` the last
  // checkpoint is found, and `note` told where there is none. Throws ConfigError where the folder
  // is another process's, or holds what this run would mix with; IoError where it cannot be
  // written.
  RunFolder(io::FileSystem& files, const std::string& out, bool resume, const Note& note);
  // What was made here and is still empty is removed: a run that was refused leaves no trace.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  // The checkpoint to go on from.
  const std::optional<std::filesystem::path>& start() const { return start_; }

 private:
  io::FileSystem& files_;
  std::filesystem::path path_;
  bool made_ = false;
  std::unique_ptr<io::FolderLock> lock_;
  std::optional<std::filesystem::path> start_;
};

}  // namespace ebb::files
