// Files whose reading can be called off: checksums and weights of large models take minutes.
#pragma once

#include <stop_token>

#include "io/file_system.h"

namespace ebb::io {

// Another file system, which must outlive it, whose files throw Cancelled at the next read once a
// stop is requested. All else is passed on.
class StoppableFileSystem final : public FileSystem {
 public:
  StoppableFileSystem(FileSystem& inner, std::stop_token stop);

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

 private:
  FileSystem& inner_;
  std::stop_token stop_;
};

// Throws Cancelled where a stop is requested.
void check_stop(const std::stop_token& stop);

}  // namespace ebb::io
