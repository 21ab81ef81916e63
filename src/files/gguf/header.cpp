#include "files/gguf/header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "base/utf8.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr Bytes kBufferBytes = 64 * kKiB;
// Far above what models have; so many tensors take some 30 MB here.
constexpr std::uint64_t kMaxKeys = 65'536;
constexpr std::uint64_t kMaxTensors = 100'000;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::int64_t kMaxAlignment = kMiB;
constexpr std::int64_t kDefaultAlignment = 32;
// The least that a key with a value takes: two lengths or types of 8 and 4 bytes and one byte; and
// a tensor: a length, a count, one dimension, a type, an offset.
constexpr Bytes kLeastKeyBytes = 13;
constexpr Bytes kLeastTensorBytes = 32;

Bytes size_of(GgufValueType type) {
  using enum GgufValueType;
  switch (type) {
    case u8:
    case i8:
    case boolean: return 1;
    case u16:
    case i16: return 2;
    case u32:
    case i32:
    case f32: return 4;
    case u64:
    case i64:
    case f64: return 8;
    case text:
    case list: break;
  }
  return 8;  // at least: its length
}

// Reads a file front to back, never beyond `end`, and knows where it is for errors.
class Cursor {
 public:
  Cursor(io::File& file, Bytes at, Bytes end)
      : file_(file), at_(at), end_(std::min(end, file.size())) {}

  Bytes at() const { return at_; }
  Bytes left() const { return end_ - at_; }

  [[noreturn]] void fail(Bytes at, std::string_view what, std::string_view expected,
                         std::string_view found) const {
    throw FormatError(fmt::format(
        "'{}' is not a valid GGUF file: at byte {}: {}: expected {}, found {}. Get the file again, "
        "or write it anew.",
        file_.path().string(), at, what, expected, found));
  }

  void need(Bytes bytes, std::string_view what) const {
    if (bytes <= left()) return;
    fail(at_, what, fmt::format("{} more bytes", bytes),
         fmt::format("{} before the {}", left(),
                     end_ < file_.size() ? "most that a header may have" : "end of the file"));
  }

  template <class T>
  T take(std::string_view what) {
    std::array<std::byte, sizeof(T)> bytes;
    take_bytes(bytes, what);
    // Little-endian, whatever the machine is.
    if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(bytes);
    return std::bit_cast<T>(bytes);
  }

  std::string take_text(std::string_view what, std::uint64_t most) {
    const Bytes begin = at_;
    const auto length = take<std::uint64_t>(what);
    if (length > most) {
      fail(begin, what, fmt::format("a text of at most {} bytes", most),
           fmt::format("a length of {}", length));
    }
    need(static_cast<Bytes>(length), what);
    std::string text(to_size(length), '\0');
    take_bytes(std::as_writable_bytes(std::span(text)), what);
    return text;
  }

  void skip(Bytes bytes, std::string_view what) {
    need(bytes, what);
    at_ += bytes;
  }

 private:
  void take_bytes(std::span<std::byte> to, std::string_view what) {
    need(static_cast<Bytes>(to.size()), what);
    while (!to.empty()) {
      if (at_ < buffer_at_ || at_ >= buffer_at_ + static_cast<Bytes>(buffer_.size())) fill();
      const auto from = to_size(at_ - buffer_at_);
      const std::size_t n = std::min(to.size(), buffer_.size() - from);
      std::memcpy(to.data(), buffer_.data() + from, n);
      to = to.subspan(n);
      at_ += static_cast<Bytes>(n);
    }
  }

  void fill() {
    buffer_.resize(to_size(std::min(kBufferBytes, left())));
    buffer_at_ = at_;
    file_.read(at_, buffer_);
  }

  io::File& file_;
  Bytes at_;
  Bytes end_;
  Bytes buffer_at_ = 0;
  std::vector<std::byte> buffer_;
};

class HeaderReader {
 public:
  explicit HeaderReader(io::File& file) : file_(file), cursor_(file, 0, kMaxGgufHeader) {}

  GgufHeader read() {
    read_version();
    const Bytes counts_at = cursor_.at();
    const auto tensors = cursor_.take<std::uint64_t>("the number of tensors");
    const auto keys = cursor_.take<std::uint64_t>("the number of keys");
    check_count(counts_at, tensors, kMaxTensors, kLeastTensorBytes, "the number of tensors");
    check_count(counts_at + 8, keys, kMaxKeys, kLeastKeyBytes, "the number of keys");
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    const std::int64_t alignment = find_alignment();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor(alignment);
    const Bytes data = (cursor_.at() + alignment - 1) / alignment * alignment;
    place_tensors(data);
    return std::move(header_);
  }

 private:
  void read_version() {
    std::array<char, 4> magic{};
    for (char& c : magic) c = cursor_.take<char>("the first four bytes");
    const std::string_view found(magic.data(), magic.size());
    if (found != kMagic) cursor_.fail(0, "the first four bytes", "GGUF", in_quotes(found));
    header_.version = cursor_.take<std::uint32_t>("the version");
    if (header_.version == 2 || header_.version == 3) return;
    if (header_.version != 0 && (header_.version & 0xffffu) == 0) {
      throw FormatError(
          fmt::format("'{}': its numbers are big-endian (version {} at byte 4), and Ebb reads "
                      "little-endian GGUF files; convert the model on a little-endian machine",
                      file_.path().string(), std::uint64_t{header_.version} >> 24));
    }
    throw FormatError(
        fmt::format("'{}': GGUF version {} at byte 4; Ebb reads versions 2 and 3. Convert the "
                    "model with a newer tool.",
                    file_.path().string(), header_.version));
  }

  void check_count(Bytes at, std::uint64_t count, std::uint64_t most, Bytes least_bytes,
                   std::string_view what) const {
    const auto room = static_cast<std::uint64_t>(cursor_.left() / least_bytes);
    if (count <= std::min(most, room)) return;
    cursor_.fail(at, what, fmt::format("at most {}", std::min(most, room)),
                 fmt::format("{}", count));
  }

  std::string take_name(std::string_view what) {
    const Bytes at = cursor_.at();
    std::string name = cursor_.take_text(what, kMaxNameBytes);
    if (name.empty() || utf8::find_invalid(name)) {
      cursor_.fail(at, what, "a text in UTF-8", in_quotes(name));
    }
    return name;
  }

  GgufValueType take_type(const std::string& what) {
    const Bytes at = cursor_.at();
    const auto number = cursor_.take<std::uint32_t>(what);
    if (number > static_cast<std::uint32_t>(GgufValueType::f64)) {
      cursor_.fail(at, what, "a type from 0 to 12", fmt::format("{}", number));
    }
    return static_cast<GgufValueType>(number);
  }

  void read_key() {
    const Bytes at = cursor_.at();
    std::string key = take_name("a key");
    const std::string what = "the value of " + in_quotes(key);
    const Bytes value_at = cursor_.at();
    GgufValue value = read_value(what);
    header_.extents[key] = {value_at, cursor_.at() - value_at};
    if (!header_.values.emplace(std::move(key), std::move(value)).second) {
      cursor_.fail(at, what, "each key once", "it a second time");
    }
  }

  GgufValue read_value(const std::string& what) {
    using enum GgufValueType;
    const GgufValueType type = take_type(what);
    switch (type) {
      case u8: return std::int64_t{cursor_.take<std::uint8_t>(what)};
      case i8: return std::int64_t{cursor_.take<std::int8_t>(what)};
      case u16: return std::int64_t{cursor_.take<std::uint16_t>(what)};
      case i16: return std::int64_t{cursor_.take<std::int16_t>(what)};
      case u32: return std::int64_t{cursor_.take<std::uint32_t>(what)};
      case i32: return std::int64_t{cursor_.take<std::int32_t>(what)};
      case f32: return double{cursor_.take<float>(what)};
      case boolean: return take_boolean(what);
      case text: return cursor_.take_text(what, std::numeric_limits<std::int64_t>::max());
      case list: return take_list(what);
      case u64: return take_u64(what);
      case i64: return cursor_.take<std::int64_t>(what);
      case f64: break;
    }
    return cursor_.take<double>(what);
  }

  bool take_boolean(const std::string& what) {
    const Bytes at = cursor_.at();
    const auto value = cursor_.take<std::uint8_t>(what);
    if (value > 1) cursor_.fail(at, what, "0 or 1", fmt::format("{}", value));
    return value == 1;
  }

  std::int64_t take_u64(const std::string& what) {
    const Bytes at = cursor_.at();
    const auto value = cursor_.take<std::uint64_t>(what);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      cursor_.fail(at, what, "a number below 2^63", fmt::format("{}", value));
    }
    return static_cast<std::int64_t>(value);
  }

  GgufList take_list(const std::string& what) {
    const Bytes at = cursor_.at();
    GgufList list{.type = take_type(what)};
    if (list.type == GgufValueType::list) {
      cursor_.fail(at, what, "a list of numbers or texts", "a list of lists");
    }
    const Bytes count_at = cursor_.at();
    const auto count = cursor_.take<std::uint64_t>(what);
    const Bytes least = size_of(list.type);
    if (count > static_cast<std::uint64_t>(cursor_.left() / least)) {
      cursor_.fail(count_at, what, fmt::format("at most {} items", cursor_.left() / least),
                   fmt::format("{}", count));
    }
    list.count = static_cast<std::int64_t>(count);
    list.offset = cursor_.at();
    if (list.type == GgufValueType::text) {
      for (std::int64_t i = 0; i < list.count; ++i) {
        const Bytes item = cursor_.at();
        const auto length = cursor_.take<std::uint64_t>(what);
        if (length > static_cast<std::uint64_t>(cursor_.left())) {
          cursor_.fail(item, what, fmt::format("a text of at most {} bytes", cursor_.left()),
                       fmt::format("a length of {}", length));
        }
        cursor_.skip(static_cast<Bytes>(length), what);
      }
    } else {
      cursor_.skip(list.count * least, what);
    }
    list.bytes = cursor_.at() - list.offset;
    return list;
  }

  std::int64_t find_alignment() const {
    const auto found = header_.values.find("general.alignment");
    if (found == header_.values.end()) return kDefaultAlignment;
    const auto* value = std::get_if<std::int64_t>(&found->second);
    if (value != nullptr && *value >= 8 && *value <= kMaxAlignment &&
        std::has_single_bit(static_cast<std::uint64_t>(*value))) {
      return *value;
    }
    cursor_.fail(cursor_.at(), "the value of general.alignment",
                 fmt::format("a power of two from 8 to {}", kMaxAlignment),
                 value == nullptr ? std::string("another type") : fmt::format("{}", *value));
  }

  void read_tensor(std::int64_t alignment) {
    const Bytes at = cursor_.at();
    GgufTensor tensor;
    tensor.name = take_name("a tensor's name");
    const std::string what = "tensor " + in_quotes(tensor.name);
    if (!names_.insert(tensor.name).second) {
      cursor_.fail(at, what, "each name once", "it a second time");
    }
    const Bytes shape_at = cursor_.at();
    const auto dimensions = cursor_.take<std::uint32_t>(what);
    if (dimensions < 1 || dimensions > kMostDimensions) {
      cursor_.fail(shape_at, what, fmt::format("1 to {} dimensions", kMostDimensions),
                   fmt::format("{}", dimensions));
    }
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const Bytes size_at = cursor_.at();
      const std::int64_t size = take_u64(what);
      if (size < 1) cursor_.fail(size_at, what, "a dimension of at least 1", "0");
      tensor.shape.insert(tensor.shape.begin(), size);
    }
    const Bytes type_at = cursor_.at();
    const auto number = cursor_.take<std::uint32_t>(what);
    const std::optional<GgufType> type = try_gguf_type(number);
    if (!type) {
      throw FormatError(fmt::format(
          "'{}': at byte {}: {} is stored as {}, which Ebb does not read; it reads {}. Get the "
          "model in one of those, or as safetensors.",
          file_.path().string(), type_at, what, gguf_type_name(number), gguf_type_names()));
    }
    tensor.type = *type;
    tensor.bytes = bytes_of(tensor, shape_at, what);
    const Bytes offset_at = cursor_.at();
    tensor.offset = take_u64(what);  // from the start of the data
    if (tensor.offset % alignment != 0) {
      cursor_.fail(offset_at, what, fmt::format("an offset that is a multiple of {}", alignment),
                   fmt::format("{}", tensor.offset));
    }
    header_.tensors.push_back(std::move(tensor));
  }

  Bytes bytes_of(const GgufTensor& tensor, Bytes at, const std::string& what) const {
    const Grain grain = grain_of(tensor.type);
    const std::int64_t row = tensor.shape.back();
    if (row % grain.per != 0) {
      cursor_.fail(at, what,
                   fmt::format("rows that are a multiple of {}, as {} has blocks of so many",
                               grain.per, name_of(tensor.type)),
                   fmt::format("{}", row));
    }
    Bytes bytes = row / grain.per;
    bool fits = !__builtin_mul_overflow(bytes, grain.bytes, &bytes);
    std::int64_t count = row;
    for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d) {
      fits = fits && !__builtin_mul_overflow(bytes, tensor.shape[d], &bytes) &&
             !__builtin_mul_overflow(count, tensor.shape[d], &count);
    }
    if (!fits) {
      cursor_.fail(at, what, "a tensor of less than 2^63 bytes",
                   fmt::format("the shape [{}]", fmt::join(tensor.shape, ", ")));
    }
    return bytes;
  }

  // Gaps are padding, which Ebb does not look at.
  void place_tensors(Bytes data) {
    std::ranges::stable_sort(header_.tensors, {}, &GgufTensor::offset);
    const Bytes size = file_.size();
    Bytes end = 0;
    std::string_view before;
    for (GgufTensor& tensor : header_.tensors) {
      const std::string what = "tensor " + in_quotes(tensor.name);
      if (tensor.offset < end) {
        cursor_.fail(data + tensor.offset, what,
                     fmt::format("its data behind that of {}, which ends at {}", in_quotes(before),
                                 data + end),
                     fmt::format("{}", data + tensor.offset));
      }
      const bool inside = data <= size && tensor.offset <= size - data &&
                          tensor.bytes <= size - data - tensor.offset;
      if (!inside) {
        cursor_.fail(size, what,
                     fmt::format("{} bytes of data from {} bytes behind byte {} on", tensor.bytes,
                                 tensor.offset, data),
                     fmt::format("a file of {} bytes: it is cut off", size));
      }
      end = tensor.offset + tensor.bytes;
      before = tensor.name;
      tensor.offset += data;
    }
  }

  io::File& file_;
  Cursor cursor_;
  GgufHeader header_;
  std::set<std::string> names_;
};

}  // namespace

std::int64_t GgufTensor::count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

GgufHeader read_gguf_header(io::File& file) { return HeaderReader(file).read(); }

void read_texts(io::File& file, const GgufList& list, FunctionRef<void(std::string text)> visit) {
  Cursor cursor(file, list.offset, list.offset + list.bytes);
  for (std::int64_t i = 0; i < list.count; ++i) {
    visit(cursor.take_text("a text of a list", to_size(list.bytes)));
  }
}

std::vector<double> read_numbers(io::File& file, const GgufList& from) {
  using enum GgufValueType;
  Cursor cursor(file, from.offset, from.offset + from.bytes);
  constexpr std::string_view what = "a number of a list";
  const auto take = [&]() -> double {
    switch (from.type) {
      case u8:
      case boolean: return cursor.take<std::uint8_t>(what);
      case i8: return cursor.take<std::int8_t>(what);
      case u16: return cursor.take<std::uint16_t>(what);
      case i16: return cursor.take<std::int16_t>(what);
      case u32: return cursor.take<std::uint32_t>(what);
      case i32: return cursor.take<std::int32_t>(what);
      case f32: return cursor.take<float>(what);
      case u64: return static_cast<double>(cursor.take<std::uint64_t>(what));
      case i64: return static_cast<double>(cursor.take<std::int64_t>(what));
      case f64: return cursor.take<double>(what);
      case text:
      case GgufValueType::list: break;
    }
    cursor.fail(from.offset, what, "numbers", "another type");
  };
  std::vector<double> numbers;
  numbers.reserve(to_size(from.count));
  for (std::int64_t i = 0; i < from.count; ++i) numbers.push_back(take());
  return numbers;
}

bool is_gguf(std::string_view head) { return head.starts_with(kMagic); }

}  // namespace ebb::files
