#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/safetensors_header.h"

namespace ebb::files {
namespace {

constexpr Bytes kLengthBytes = 8;

std::array<std::byte, kLengthBytes> little_endian(std::uint64_t value) {
  std::array<std::byte, kLengthBytes> bytes{};
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(value);
    value >>= 8;
  }
  return bytes;
}

std::uint64_t from_little_endian(const std::array<std::byte, kLengthBytes>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

std::string read_header(io::File& file) {
  const auto fail = [&](std::string_view expected, const std::string& found) {
    throw FormatError(fmt::format(
        "'{}' is not a valid safetensors file: expected {}, found {}. Check that this is the right "
        "file, and get it again.",
        file.path().string(), expected, found));
  };
  const Bytes size = file.size();
  if (size < kLengthBytes) fail("at least 8 bytes", fmt::format("{}", size));
  std::array<std::byte, kLengthBytes> length{};
  file.read(0, length);
  const std::uint64_t bytes = from_little_endian(length);
  const auto most = static_cast<std::uint64_t>(std::min(size - kLengthBytes, kMaxHeaderBytes));
  if (bytes > most) {
    fail(fmt::format("a header of at most {} bytes in a file of {}", most, size),
         fmt::format("{} bytes", bytes));
  }
  std::string text(to_size(bytes), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) fail("a header that begins with {", in_quotes(text.substr(0, 8)));
  return text;
}

}  // namespace

SafetensorsReader::SafetensorsReader(io::FileSystem& files, const std::filesystem::path& path)
    : file_(files.open(path)) {
  const std::string text = read_header(*file_);
  const Bytes data_offset = kLengthBytes + static_cast<Bytes>(text.size());
  // A file that shrank since its header was read has no data at all.
  const Bytes data_bytes = std::max<Bytes>(0, file_->size() - data_offset);
  SafetensorsHeader header = parse_header(text, data_bytes, path);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  for (StoredTensor& tensor : tensors_) tensor.offset += data_offset;
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
}

const StoredTensor* SafetensorsReader::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::size_t i, std::string_view n) { return tensors_[i].name < n; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

void SafetensorsReader::read(const StoredTensor& tensor, Bytes offset,
                             std::span<std::byte> to) const {
  const auto wanted = static_cast<Bytes>(to.size());
  if (offset < 0 || wanted > tensor.bytes || offset > tensor.bytes - wanted) {
    throw FormatError(
        fmt::format("'{}': tensor {}: expected a read within its {} bytes, found {} bytes at {}",
                    path().string(), in_quotes(tensor.name), tensor.bytes, wanted, offset));
  }
  file_->read(tensor.offset + offset, to);
}

SafetensorsWriter::SafetensorsWriter(io::FileSystem& files, const std::filesystem::path& path,
                                     std::vector<TensorSpec> tensors, const Metadata& metadata)
    : tensors_(std::move(tensors)) {
  const std::string header = format_header(tensors_, metadata, path);
  data_offset_ = kLengthBytes + static_cast<Bytes>(header.size());
  total_bytes_ = data_offset_;
  for (const TensorSpec& tensor : tensors_) {
    total_bytes_ += *try_bytes_of(tensor.type, tensor.shape);
  }
  file_ = files.create(path);
  append(little_endian(header.size()));
  append(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::append(std::span<const std::byte> piece) {
  file_->write(written_, piece);
  digest_.add(piece);
  written_ += static_cast<Bytes>(piece.size());
}

void SafetensorsWriter::write(std::span<const std::byte> piece) {
  const Bytes left = finished_ ? 0 : total_bytes_ - written_;
  if (static_cast<Bytes>(piece.size()) > left) {
    throw FormatError(fmt::format("cannot write '{}': expected at most {} more bytes, found {}",
                                  file_->path().string(), left, piece.size()));
  }
  append(piece);
}

WrittenFile SafetensorsWriter::finish() {
  Bytes end = data_offset_;
  for (const TensorSpec& tensor : tensors_) {
    const Bytes bytes = *try_bytes_of(tensor.type, tensor.shape);
    if (written_ < end + bytes) {
      throw FormatError(fmt::format("cannot finish '{}': tensor {}: expected {} bytes, found {}",
                                    file_->path().string(), in_quotes(tensor.name), bytes,
                                    written_ - end));
    }
    end += bytes;
  }
  file_->sync();
  finished_ = true;
  return {written_, digest_.hex()};
}

}  // namespace ebb::files
