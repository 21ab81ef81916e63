#include "io/file_system.h"

#include <cerrno>

#include "io/failure.h"

namespace ebb::io {

void FileSystem::make_directories(const std::filesystem::path& directory) {
  if (is_directory(directory)) return;
  if (directory.empty()) throw_failure("make the folder", directory, ENOENT);
  if (!directory.has_filename()) return make_directories(directory.parent_path());
  const std::filesystem::path parent = parent_of(directory);
  make_directories(parent);
  make_directory(directory);
  sync_directory(parent);
}

}  // namespace ebb::io
