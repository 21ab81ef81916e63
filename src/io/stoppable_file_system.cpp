#include "io/stoppable_file_system.h"

#include "ebb/error.h"

namespace ebb::io {
namespace {

class StoppableFile final : public File {
 public:
  StoppableFile(std::unique_ptr<File> inner, std::stop_token stop)
      : File(inner->path()), inner_(std::move(inner)), stop_(std::move(stop)) {}

  void read(Bytes offset, std::span<std::byte> to) override {
    check_stop(stop_);
    inner_->read(offset, to);
  }
  void write(Bytes offset, std::span<const std::byte> from) override {
    inner_->write(offset, from);
  }
  void sync() override { inner_->sync(); }
  FileStamp stamp() const override { return inner_->stamp(); }

 private:
  std::unique_ptr<File> inner_;
  std::stop_token stop_;
};

}  // namespace

void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Cancelled("stopped, as was asked for, before anything was done");
}

StoppableFileSystem::StoppableFileSystem(FileSystem& inner, std::stop_token stop)
    : inner_(inner), stop_(std::move(stop)) {}

std::unique_ptr<File> StoppableFileSystem::open(const std::filesystem::path& path) {
  check_stop(stop_);
  return std::make_unique<StoppableFile>(inner_.open(path), stop_);
}

std::unique_ptr<File> StoppableFileSystem::create(const std::filesystem::path& path) {
  return inner_.create(path);
}

bool StoppableFileSystem::exists(const std::filesystem::path& path) { return inner_.exists(path); }

bool StoppableFileSystem::is_directory(const std::filesystem::path& path) {
  return inner_.is_directory(path);
}

bool StoppableFileSystem::is_file(const std::filesystem::path& path) {
  return inner_.is_file(path);
}

bool StoppableFileSystem::is_link(const std::filesystem::path& path) {
  return inner_.is_link(path);
}

std::vector<std::filesystem::path> StoppableFileSystem::list(
    const std::filesystem::path& directory) {
  return inner_.list(directory);
}

void StoppableFileSystem::make_directory(const std::filesystem::path& directory) {
  inner_.make_directory(directory);
}

void StoppableFileSystem::rename(const std::filesystem::path& from,
                                 const std::filesystem::path& to) {
  inner_.rename(from, to);
}

void StoppableFileSystem::remove_all(const std::filesystem::path& path) { inner_.remove_all(path); }

Bytes StoppableFileSystem::available(const std::filesystem::path& path) {
  return inner_.available(path);
}

void StoppableFileSystem::sync_directory(const std::filesystem::path& directory) {
  inner_.sync_directory(directory);
}

}  // namespace ebb::io
