// The disk without waiting for it: syncs do nothing. For tests that save hundreds of times and lose
// power in a DurableImage only.
#pragma once

#include <memory>
#include <utility>

#include "io/posix_file_system.h"

namespace ebb::io {

class UnsyncedFiles final : public FileSystem {
 public:
  std::unique_ptr<File> open(const std::filesystem::path& path) override {
    return std::make_unique<UnsyncedFile>(disk_.open(path));
  }
  std::unique_ptr<File> create(const std::filesystem::path& path) override {
    return std::make_unique<UnsyncedFile>(disk_.create(path));
  }
  bool exists(const std::filesystem::path& path) override { return disk_.exists(path); }
  bool is_directory(const std::filesystem::path& path) override { return disk_.is_directory(path); }
  bool is_file(const std::filesystem::path& path) override { return disk_.is_file(path); }
  bool is_link(const std::filesystem::path& path) override { return disk_.is_link(path); }
  std::vector<std::filesystem::path> list(const std::filesystem::path& path) override {
    return disk_.list(path);
  }
  void make_directory(const std::filesystem::path& path) override { disk_.make_directory(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    disk_.rename(from, to);
  }
  void remove_all(const std::filesystem::path& path) override { disk_.remove_all(path); }
  Bytes available(const std::filesystem::path& path) override { return disk_.available(path); }
  void sync_directory(const std::filesystem::path&) override {}

 private:
  class UnsyncedFile final : public File {
   public:
    explicit UnsyncedFile(std::unique_ptr<File> file)
        : File(file->path()), file_(std::move(file)) {}
    void read(Bytes offset, std::span<std::byte> to) override { file_->read(offset, to); }
    void write(Bytes offset, std::span<const std::byte> from) override {
      file_->write(offset, from);
    }
    void sync() override {}
    FileStamp stamp() const override { return file_->stamp(); }

   private:
    std::unique_ptr<File> file_;
  };

  PosixFileSystem disk_;
};

}  // namespace ebb::io
