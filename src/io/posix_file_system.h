// The machine's own files, through the page cache.
#pragma once

#include "io/file_system.h"

namespace ebb::io {

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<File> open(const std::filesystem::path& path) override;
  std::unique_ptr<File> create(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) override;
  bool is_directory(const std::filesystem::path& path) override;
  bool is_file(const std::filesystem::path& path) override;
  bool is_link(const std::filesystem::path& path) override;
  std::vector<std::filesystem::path> list(const std::filesystem::path& directory) override;
  void make_directory(const std::filesystem::path& directory) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove_all(const std::filesystem::path& path) override;
  Bytes available(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& directory) override;
};

}  // namespace ebb::io
