// A folder that belongs to one process at a time.
#pragma once

#include <filesystem>
#include <string>

namespace ebb::io {

// Held until it is destroyed or the process ends, however it ends. The lock is on a file in the
// folder (flock), which says whose it is and is removed in the end; one that a killed process left
// is taken over.
class FolderLock {
 public:
  static constexpr const char* kName = "ebb.lock";

  // The folder must exist. Throws ConfigError that names the process that has it, IoError where no
  // file can be written there. `what` names the folder for people ("--out run").
  FolderLock(const std::filesystem::path& folder, const std::string& what);
  ~FolderLock();
  // Whether a process is at work in the folder, told without taking the lock, which would be in its
  // way: by the name that it left. Of a process of another host that is taken for true.
  static bool is_held(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace ebb::io
