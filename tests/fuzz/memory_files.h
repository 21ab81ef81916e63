// Files that lie in memory, for reading: a parser that asks for anything else is wrong.
#pragma once

#include <map>

#include "io/file_system.h"

namespace ebb::fuzz {

// The texts are borrowed. Every folder of a file's path exists.
class MemoryFiles final : public io::FileSystem {
 public:
  explicit MemoryFiles(std::map<std::filesystem::path, std::string_view> files);

  std::unique_ptr<io::File> open(const std::filesystem::path& path) override;
  std::unique_ptr<io::File> create(const std::filesystem::path& path) override;
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
  std::map<std::filesystem::path, std::string_view> files_;
};

}  // namespace ebb::fuzz
