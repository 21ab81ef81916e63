// Reading and writing safetensors: eight bytes with the length of a JSON header, the header, then
// the tensors' bytes without gaps. The room `checkpoint` knows formats of weights and states and
// how a folder of them is published; it does not know what the tensors mean.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "files/stored_type.h"
#include "io/file_system.h"

namespace ebb::files {

using Metadata = std::map<std::string, std::string>;

struct TensorSpec {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
};

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  Bytes offset = 0;  // from the start of the file
  Bytes bytes = 0;
};

// An open file whose header was checked as hostile: on return from the constructor every tensor
// lies inside the file, they follow each other without gap or overlap, and their sizes match their
// shapes. Anything else is a FormatError that names the file, the tensor, what was expected and
// what was found. Memory is bounded by the size of the header, which is bounded by the file's and
// by 100 MB. Reads may come from several threads.
class SafetensorsReader {
 public:
  SafetensorsReader(io::FileSystem& files, const std::filesystem::path& path);

  // All tensors, in the order of their bytes in the file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Null where there is none of that name; otherwise lives as long as the reader.
  const StoredTensor* find(std::string_view name) const;
  const Metadata& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_->path(); }

  // Bytes [offset, offset + to.size()) of the tensor, which must be one of this reader's.
  void read(const StoredTensor& tensor, Bytes offset, std::span<std::byte> to) const;

 private:
  std::unique_ptr<io::File> file_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::size_t> by_name_;  // indices into tensors_, sorted by name
  Metadata metadata_;
};

struct WrittenFile {
  Bytes bytes = 0;
  std::string digest;  // of the whole file, as Digest::hex gives it
};

// Writes a file front to back: the header at once, then the tensors' bytes in the order of the
// specs, in pieces of any size that need not end where a tensor ends. The header is padded so that
// the data starts at a multiple of eight. Not for use by several threads. A file that was not
// finished is left incomplete; readers refuse it.
class SafetensorsWriter {
 public:
  // FormatError where names are not unique, are not UTF-8 or a shape is impossible.
  SafetensorsWriter(io::FileSystem& files, const std::filesystem::path& path,
                    std::vector<TensorSpec> tensors, const Metadata& metadata = {});

  // Bytes of the whole file when it is finished.
  Bytes total_bytes() const { return total_bytes_; }

  void write(std::span<const std::byte> piece);

  // Checks that all bytes came, and syncs. Nothing may be written after it.
  WrittenFile finish();

 private:
  void append(std::span<const std::byte> piece);

  std::unique_ptr<io::File> file_;
  std::vector<TensorSpec> tensors_;
  Digest digest_;
  Bytes data_offset_ = 0;
  Bytes total_bytes_ = 0;
  Bytes written_ = 0;
  bool finished_ = false;
};

}  // namespace ebb::files
