#include "files/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
// No model comes near; it keeps a shape of a million ones from being a tensor.
constexpr std::size_t kMaxDimensions = 64;

// Takes the parser's events and accepts the one structure a header may have, so that nothing else
// ever takes memory: no tree is built, and depth cannot grow.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const std::filesystem::path& path) : path_(path) {}

  SafetensorsHeader header;

  // The parser takes a zero byte for the end of its input and would hide what comes after it.
  void refuse_zero_bytes(std::string_view text) const {
    const std::size_t at = text.find('\0');
    if (at == std::string_view::npos) return;
    throw_format(fmt::format("expected JSON in UTF-8, found a zero byte at {} of the header", at));
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_float(double, const std::string& text) override {
    unexpected("the number " + in_quotes(text));
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_integer(std::int64_t value) override {
    unexpected(fmt::format("the number {}", value));
  }

  bool number_unsigned(std::uint64_t value) override {
    const bool shape = where_ == Where::shape;
    if (!shape && where_ != Where::offsets) unexpected(fmt::format("the number {}", value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(shape ? "shape" : "data_offsets", "numbers below 2^63", fmt::format("{}", value));
    }
    std::vector<std::int64_t>& list = shape ? tensor_.shape : offsets_;
    if (list.size() == (shape ? kMaxDimensions : 2)) {
      fail(shape ? "shape" : "data_offsets",
           fmt::format("{} {} numbers", shape ? "at most" : "exactly", list.size()), "more");
    }
    list.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (where_ == Where::metadata) {
      header.metadata[key_] = std::move(value);
      return true;
    }
    if (where_ != Where::tensor || field_ != "dtype") unexpected("the text " + in_quotes(value));
    const std::optional<StoredType> type = try_stored_type(value);
    if (!type) {
      fail("dtype", "one of " + stored_type_names(), in_quotes(value));
    }
    tensor_.type = *type;
    return true;
  }

  bool key(std::string& name) override {
    if (where_ == Where::root) {
      if (!names_.insert(name).second) {
        throw_format(fmt::format("expected each name once, found {} twice", in_quotes(name)));
      }
      key_ = std::move(name);
    } else if (where_ == Where::metadata) {
      if (header.metadata.contains(name)) {
        throw_format(
            fmt::format("expected each key of __metadata__ once, found {} twice", in_quotes(name)));
      }
      key_ = std::move(name);
    } else {
      if (name != "dtype" && name != "shape" && name != "data_offsets") {
        fail("entry", "the keys dtype, shape and data_offsets", in_quotes(name));
      }
      if (!fields_.insert(name).second) fail("entry", "each key once", in_quotes(name) + " twice");
      field_ = std::move(name);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::start) {
      where_ = Where::root;
    } else if (where_ == Where::root) {
      where_ = key_ == kMetadataKey ? Where::metadata : Where::tensor;
      tensor_ = {};
      tensor_.name = key_;
      fields_.clear();
      offsets_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (where_ == Where::tensor) take_tensor();
    where_ = where_ == Where::root ? Where::end : Where::root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::tensor || field_ == "dtype") unexpected("a list");
    where_ = field_ == "shape" ? Where::shape : Where::offsets;
    return true;
  }

  bool end_array() override {
    where_ = Where::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw_format(fmt::format("expected JSON in UTF-8, found at byte {} of the header: {}", position,
                             in_quotes(error.what())));
  }

 private:
  enum class Where { start, root, metadata, tensor, shape, offsets, end };

  [[noreturn]] void throw_format(const std::string& what) const {
    throw FormatError(fmt::format(
        "'{}' is not a valid safetensors file: {}. Get the file again, or write it anew.",
        path_.string(), what));
  }

  // Refuses a part of the tensor at hand.
  [[noreturn]] void fail(std::string_view part, std::string_view expected,
                         std::string_view found) const {
    throw_format(fmt::format("tensor {}: {}: expected {}, found {}", in_quotes(tensor_.name), part,
                             expected, found));
  }

  [[noreturn]] void unexpected(std::string_view found) const {
    switch (where_) {
      case Where::start:
      case Where::end: throw_format(fmt::format("expected an object, found {}", found));
      case Where::root:
        throw_format(fmt::format("{}: expected an object, found {}", in_quotes(key_), found));
      case Where::metadata:
        throw_format(
            fmt::format("__metadata__, key {}: expected a text, found {}", in_quotes(key_), found));
      case Where::tensor: fail(field_, field_ == "dtype" ? "a text" : "a list of numbers", found);
      case Where::shape: fail("shape", "whole numbers from 0", found);
      case Where::offsets: break;
    }
    fail("data_offsets", "whole numbers from 0", found);
  }

  void take_tensor() {
    if (fields_.size() != 3) {
      fail("entry", "the keys dtype, shape and data_offsets",
           fields_.empty() ? "none" : fmt::format("only {}", fmt::join(fields_, ", ")));
    }
    if (offsets_.size() != 2) {
      fail("data_offsets", "two numbers", fmt::format("{}", offsets_.size()));
    }
    if (offsets_[0] > offsets_[1]) {
      fail("data_offsets", "a begin that is not after the end",
           fmt::format("[{}, {}]", offsets_[0], offsets_[1]));
    }
    tensor_.offset = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    const std::optional<Bytes> bytes = try_bytes_of(tensor_.type, tensor_.shape);
    const std::string shape = fmt::format("[{}]", fmt::join(tensor_.shape, ", "));
    if (!bytes) fail("shape", "a tensor of less than 2^63 bytes", shape);
    if (*bytes != tensor_.bytes) {
      fail("data_offsets", fmt::format("{} bytes for {} {}", *bytes, name_of(tensor_.type), shape),
           fmt::format("{}", tensor_.bytes));
    }
    header.tensors.push_back(std::move(tensor_));
  }

  const std::filesystem::path& path_;
  Where where_ = Where::start;
  std::string key_;    // of the root or of the metadata
  std::string field_;  // of a tensor
  std::set<std::string> names_;
  std::set<std::string> fields_;
  std::vector<std::int64_t> offsets_;
  StoredTensor tensor_;
};

// `tensors` in the order of their bytes.
void check_cover(const std::vector<StoredTensor>& tensors, Bytes data_bytes,
                 const std::filesystem::path& path) {
  const auto fail = [&](const StoredTensor& tensor, Bytes expected, Bytes found,
                        std::string_view what) {
    throw FormatError(fmt::format(
        "'{}' is not a valid safetensors file: tensor {}: expected its data to {} {}, found {}. "
        "Get the file again, or write it anew.",
        path.string(), in_quotes(tensor.name), what, expected, found));
  };
  Bytes end = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != end) {
      fail(tensor, end, tensor.offset, "begin where the tensor before it ends, at");
    }
    end += tensor.bytes;
    if (end > data_bytes) fail(tensor, data_bytes, end, "end inside the file's data, before");
  }
  if (end != data_bytes) {
    throw FormatError(
        fmt::format("'{}' is not a valid safetensors file: expected {} bytes of data after the "
                    "header, as its tensors say, found {}. Get the file again, or write it anew.",
                    path.string(), end, data_bytes));
  }
}

}  // namespace

SafetensorsHeader parse_header(std::string_view text, Bytes data_bytes,
                               const std::filesystem::path& path) {
  HeaderEvents events(path);
  events.refuse_zero_bytes(text);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  SafetensorsHeader header = std::move(events.header);
  // Empty tensors share an offset with the one after them and come first.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const StoredTensor& a, const StoredTensor& b) {
                     return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
                   });
  check_cover(header.tensors, data_bytes, path);
  return header;
}

std::string format_header(const std::vector<TensorSpec>& tensors, const Metadata& metadata,
                          const std::filesystem::path& path) {
  const auto fail = [&](std::string_view name, std::string_view what) {
    throw FormatError(
        fmt::format("cannot write '{}': tensor {}: {}.", path.string(), in_quotes(name), what));
  };
  nlohmann::ordered_json::object_t entries;
  if (!metadata.empty()) entries.emplace_back(kMetadataKey, metadata);
  std::set<std::string_view> names = {kMetadataKey};
  Bytes end = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) fail(tensor.name, "expected each name once, found two");
    const Bytes begin = end;
    const std::optional<Bytes> bytes = try_bytes_of(tensor.type, tensor.shape);
    if (!bytes || __builtin_add_overflow(begin, *bytes, &end)) {
      fail(tensor.name, fmt::format("expected a size below 2^63 bytes, found the shape [{}]",
                                    fmt::join(tensor.shape, ", ")));
    }
    entries.emplace_back(tensor.name, nlohmann::ordered_json{{"dtype", name_of(tensor.type)},
                                                             {"shape", tensor.shape},
                                                             {"data_offsets", {begin, end}}});
  }
  std::string text;
  try {
    text = nlohmann::ordered_json(std::move(entries)).dump();
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(fmt::format("cannot write '{}': names and metadata must be UTF-8: {}",
                                  path.string(), error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (static_cast<Bytes>(text.size()) > kMaxHeaderBytes) {
    throw FormatError(
        fmt::format("cannot write '{}': expected a header of at most {} bytes, found {}. Write "
                    "fewer tensors to a file.",
                    path.string(), kMaxHeaderBytes, text.size()));
  }
  return text;
}

}  // namespace ebb::files
