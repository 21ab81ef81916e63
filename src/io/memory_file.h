// A file that lies in memory, for what is handed on as a file and was never one.
#pragma once

#include <string>

#include "io/file.h"

namespace ebb::io {

// For reading only. Its name is for errors.
class MemoryFile final : public File {
 public:
  MemoryFile(std::filesystem::path name, std::shared_ptr<const std::string> bytes)
      : File(std::move(name)), bytes_(std::move(bytes)) {}

  void read(Bytes offset, std::span<std::byte> to) override;
  void write(Bytes offset, std::span<const std::byte> from) override;
  void sync() override {}
  FileStamp stamp() const override { return {.size = static_cast<Bytes>(bytes_->size())}; }

 private:
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace ebb::io
