// A disk with so much room: for tests of what happens when it is full, and freed again.
#pragma once

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "io/failure.h"
#include "io/file_system.h"

namespace ebb::io {

// Counts the files that are written through it. For one thread.
class SmallDisk final : public FileSystem {
 public:
  SmallDisk(FileSystem& wrapped, Bytes room) : wrapped_(wrapped), room_(room) {}

  void set_room(Bytes room) { room_ = room; }
  Bytes used() const {
    Bytes bytes = 0;
    for (const auto& [path, size] : sizes_) bytes += size;
    return bytes;
  }
  Bytes most_used() const { return most_used_; }

  Bytes available(const std::filesystem::path&) override {
    return std::max<Bytes>(0, room_ - used());
  }

  std::unique_ptr<File> create(const std::filesystem::path& path) override {
    sizes_[path] = 0;
    return std::make_unique<CountedFile>(wrapped_.create(path), *this);
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    wrapped_.rename(from, to);
    std::map<std::filesystem::path, Bytes> moved;
    for (const auto& [path, size] : sizes_) {
      const auto relative = path.lexically_relative(from);
      const bool inside = !relative.empty() && *relative.begin() != "..";
      moved[!inside ? path : relative == "." ? to : to / relative] = size;
    }
    sizes_ = std::move(moved);
  }

  void remove_all(const std::filesystem::path& path) override {
    wrapped_.remove_all(path);
    std::erase_if(sizes_, [&](const auto& file) {
      const auto relative = file.first.lexically_relative(path);
      return !relative.empty() && *relative.begin() != "..";
    });
  }

  std::unique_ptr<File> open(const std::filesystem::path& path) override {
    return wrapped_.open(path);
  }
  bool exists(const std::filesystem::path& path) override { return wrapped_.exists(path); }
  bool is_directory(const std::filesystem::path& path) override {
    return wrapped_.is_directory(path);
  }
  bool is_file(const std::filesystem::path& path) override { return wrapped_.is_file(path); }
  bool is_link(const std::filesystem::path& path) override { return wrapped_.is_link(path); }
  std::vector<std::filesystem::path> list(const std::filesystem::path& directory) override {
    return wrapped_.list(directory);
  }
  void make_directory(const std::filesystem::path& directory) override {
    wrapped_.make_directory(directory);
  }
  void sync_directory(const std::filesystem::path& directory) override {
    wrapped_.sync_directory(directory);
  }

 private:
  class CountedFile final : public File {
   public:
    CountedFile(std::unique_ptr<File> wrapped, SmallDisk& disk)
        : File(wrapped->path()), wrapped_(std::move(wrapped)), disk_(disk) {}
    void read(Bytes offset, std::span<std::byte> to) override { wrapped_->read(offset, to); }
    void write(Bytes offset, std::span<const std::byte> from) override {
      Bytes& size = disk_.sizes_[path()];
      const Bytes end = std::max(size, offset + static_cast<Bytes>(from.size()));
      if (disk_.used() + end - size > disk_.room_) throw_failure("write", path(), ENOSPC);
      wrapped_->write(offset, from);
      size = end;
      disk_.most_used_ = std::max(disk_.most_used_, disk_.used());
    }
    void sync() override { wrapped_->sync(); }
    FileStamp stamp() const override { return wrapped_->stamp(); }

   private:
    std::unique_ptr<File> wrapped_;
    SmallDisk& disk_;
  };

  FileSystem& wrapped_;
  Bytes room_;
  Bytes most_used_ = 0;
  std::map<std::filesystem::path, Bytes> sizes_;
};

}  // namespace ebb::io
