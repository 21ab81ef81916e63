// A file open for reading at any offset. Private to the text room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace ebb::text {

// Reads from several threads at once are fine. Failures are IoErrors that name the file.
class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const std::filesystem::path& path);
  ~ReadOnlyFile();
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&& other) noexcept;

  // Bytes, as of now.
  std::int64_t size() const;

  // Reads until `out` is full or the file ends; returns the bytes read.
  std::size_t read_at(std::int64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace ebb::text
