// A GGUF file that is being made: version 3, little-endian, in one part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf/types.h"
#include "io/file_system.h"

namespace ebb::files {

// Keys with their values, in the order in which they are added, as the bytes of a file.
class GgufKeys {
 public:
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::span<const std::string> values);
  void add(std::string_view key, std::span<const std::int32_t> values);
  void add(std::string_view key, std::span<const float> values);
  // As another file has it, from the number of its type on.
  void add_stored(std::string_view key, std::span<const std::byte> typed_value);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key);

  std::uint64_t count_ = 0;
  std::string bytes_;
};

struct GgufTensorSpec {
  std::string name;
  GgufType type;
  std::vector<std::int64_t> shape;  // rows first; a row is whole blocks

  Bytes bytes() const;
};

// Writes `path`.partial; publish() syncs it and gives it its name, which replaces a file there. At
// a crash before, and after a failure, there is what was there before; destroyed without publish(),
// the partial file is removed as far as the disk allows.
class GgufWriter {
 public:
  // Writes all that stands before the tensors. Throws IoError before anything is written where the
  // disk has not as much room as the file takes, or something that is no file has its name.
  GgufWriter(io::FileSystem& files, std::filesystem::path path, const GgufKeys& keys,
             std::vector<GgufTensorSpec> tensors);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  const std::vector<GgufTensorSpec>& tensors() const { return tensors_; }
  Bytes bytes() const { return end_; }  // of the file
  const std::filesystem::path& partial() const { return partial_; }

  // Bytes of a tensor from `offset` on. Any order, any thread; every byte once before publish().
  void write(std::size_t tensor, Bytes offset, std::span<const std::byte> from);

  void publish();

 private:
  void discard() noexcept;

  io::FileSystem& files_;
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::vector<GgufTensorSpec> tensors_;
  std::vector<Bytes> offsets_;  // of each, from the start of the file
  Bytes end_ = 0;
  std::unique_ptr<io::File> file_;
};

}  // namespace ebb::files
