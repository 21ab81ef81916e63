#include "files/gguf/writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/header.h"
#include "io/text_file.h"

namespace ebb::files {
namespace {

constexpr Bytes kAlignment = 32;
constexpr std::uint32_t kGgufVersion = 3;

// Little-endian, whatever the machine is.
template <class T>
void put(std::string& to, T value) {
  auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(bytes);
  to.append(bytes.data(), bytes.size());
}

void put(std::string& to, std::string_view text) {
  put(to, std::uint64_t{text.size()});
  to += text;
}

void put(std::string& to, GgufValueType type) { put(to, static_cast<std::uint32_t>(type)); }

template <class T>
void put_list(std::string& to, GgufValueType type, std::span<const T> values) {
  put(to, GgufValueType::list);
  put(to, type);
  put(to, std::uint64_t{values.size()});
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>) {
      put(to, std::string_view(value));
    } else {
      put(to, value);
    }
  }
}

Bytes aligned(Bytes bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufKeys::begin(std::string_view key) {
  put(bytes_, key);
  ++count_;
}

void GgufKeys::add(std::string_view key, std::uint32_t value) {
  begin(key);
  put(bytes_, GgufValueType::u32);
  put(bytes_, value);
}

void GgufKeys::add(std::string_view key, float value) {
  begin(key);
  put(bytes_, GgufValueType::f32);
  put(bytes_, value);
}

void GgufKeys::add(std::string_view key, bool value) {
  begin(key);
  put(bytes_, GgufValueType::boolean);
  put(bytes_, static_cast<std::uint8_t>(value));
}

void GgufKeys::add(std::string_view key, std::string_view value) {
  begin(key);
  put(bytes_, GgufValueType::text);
  put(bytes_, value);
}

void GgufKeys::add(std::string_view key, std::span<const std::string> values) {
  begin(key);
  put_list(bytes_, GgufValueType::text, values);
}

void GgufKeys::add(std::string_view key, std::span<const std::int32_t> values) {
  begin(key);
  put_list(bytes_, GgufValueType::i32, values);
}

void GgufKeys::add(std::string_view key, std::span<const float> values) {
  begin(key);
  put_list(bytes_, GgufValueType::f32, values);
}

void GgufKeys::add_stored(std::string_view key, std::span<const std::byte> typed_value) {
  begin(key);
  bytes_.append(reinterpret_cast<const char*>(typed_value.data()), typed_value.size());
}

Bytes GgufTensorSpec::bytes() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return grain_of(type).size_of(count);
}

GgufWriter::GgufWriter(io::FileSystem& files, std::filesystem::path path, const GgufKeys& keys,
                       std::vector<GgufTensorSpec> tensors)
    : files_(files), path_(std::move(path)), partial_(path_), tensors_(std::move(tensors)) {
  partial_ += ".partial";
  std::string header = "GGUF";
  put(header, kGgufVersion);
  put(header, std::uint64_t{tensors_.size()});
  put(header, keys.count());
  header += keys.bytes();
  for (const GgufTensorSpec& tensor : tensors_) {
    put(header, std::string_view(tensor.name));
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      put(header, static_cast<std::uint64_t>(*size));
    }
    put(header, number_of(tensor.type));
    put(header, static_cast<std::uint64_t>(end_));
    offsets_.push_back(end_);
    end_ += aligned(tensor.bytes());
  }
  header.resize(to_size(aligned(static_cast<Bytes>(header.size()))));
  const auto begin = static_cast<Bytes>(header.size());
  end_ += begin;
  for (Bytes& offset : offsets_) offset += begin;

  io::check_replaceable(files_, path_);
  const std::filesystem::path folder = io::parent_of(path_);
  if (files_.exists(folder)) {
    // What an earlier try left goes first, and counts as free.
    files_.remove_all(partial_);
    const Bytes available = files_.available(folder);
    if (available < end_) {
      throw IoError(fmt::format("cannot write '{}': it takes {}, and its disk has {} left. Free "
                                "space on that disk, or choose a folder on another one with --out.",
                                path_.string(), format_bytes(end_), format_bytes(available)),
                    path_.string());
    }
  }
  file_ = files_.create(partial_);
  try {
    file_->write(0, std::as_bytes(std::span(header)));
    // The last tensor's end is followed by zeros up to the alignment, too.
    const std::byte zero{};
    file_->write(end_ - 1, {&zero, 1});
  } catch (...) {
    discard();
    throw;
  }
}

GgufWriter::~GgufWriter() { discard(); }

void GgufWriter::discard() noexcept {
  if (file_ == nullptr) return;
  file_.reset();
  try {
    files_.remove_all(partial_);
  } catch (const Error&) {  // it lies under a name that nobody takes for a model's
  }
}

void GgufWriter::write(std::size_t tensor, Bytes offset, std::span<const std::byte> from) {
  file_->write(offsets_[tensor] + offset, from);
}

void GgufWriter::publish() {
  file_->sync();
  files_.rename(partial_, path_);
  file_.reset();
  files_.sync_directory(io::parent_of(path_));
}

}  // namespace ebb::files
