#include "files/safetensors_index.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "files/manifest.h"
#include "io/text_file.h"

namespace ebb::files {
namespace {

constexpr std::string_view kSuffix = ".safetensors";

// Takes the parser's events, so that no tree is built: an index of a large model has a hundred
// thousand names. Only two keys of the root mean something; what else there is is passed over.
class IndexEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexEvents(const std::filesystem::path& path) : path_(path) {}

  SafetensorsIndex index;
  bool has_weight_map = false;

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("true or false"); }
  bool number_integer(std::int64_t number) override {
    return value(fmt::format("the number {}", number));
  }
  bool number_unsigned(std::uint64_t number) override {
    const bool fits = number <= static_cast<std::uint64_t>(INT64_MAX);
    if (depth_ == 2 && section_ == "metadata" && key_ == "total_size" && fits) {
      index.total_bytes = static_cast<Bytes>(number);
    }
    return value(fmt::format("the number {}", number));
  }
  bool number_float(double number, const std::string&) override {
    // Some writers put the sum down as a float.
    const bool whole = number >= 0 && number < 0x1p62 && number == std::floor(number);
    if (depth_ == 2 && section_ == "metadata" && key_ == "total_size" && whole) {
      index.total_bytes = static_cast<Bytes>(number);
    }
    return value(fmt::format("the number {}", number));
  }
  bool binary(binary_t&) override { return value("binary data"); }

  bool string(std::string& text) override {
    if (!in_map()) return value("the text " + in_quotes(text));
    if (!is_plain_name(text) || !text.ends_with(kSuffix)) {
      fail(
          fmt::format("tensor {}: expected the name of a .safetensors file in the same folder, "
                      "found {}",
                      in_quotes(key_), in_quotes(text)));
    }
    index.files.emplace(std::move(key_), std::move(text));
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      section_ = name;
      if (section_ == "weight_map" && has_weight_map) fail("weight_map: expected once, found two");
    }
    if (in_map() && index.files.contains(name)) {
      fail(fmt::format("weight_map: expected each tensor once, found {} twice", in_quotes(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 1 || (depth_ == 1 && section_ != "weight_map")) value("an object");
    if (depth_ == 1 && section_ == "weight_map") has_weight_map = true;
    return deeper();
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    value("a list");
    return deeper();
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(fmt::format("expected JSON in UTF-8, found at byte {}: {}", position,
                     in_quotes(error.what())));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(
        fmt::format("'{}' is not the index of a model: {}. Get the index again, or save the model "
                    "anew with save_pretrained(folder).",
                    path_.string(), what));
  }

 private:
  // The parser itself does not recurse; this keeps what it remembers small.
  static constexpr int kDeepest = 64;

  bool in_map() const { return depth_ == 2 && section_ == "weight_map"; }

  bool deeper() {
    if (++depth_ > kDeepest) fail(fmt::format("JSON nested deeper than {} levels", kDeepest));
    return true;
  }

  // A value that is no file's name: wrong as a weight map and in one, otherwise of no interest.
  bool value(std::string_view found) const {
    if (depth_ == 0) fail(fmt::format("expected an object, found {}", found));
    if (depth_ == 1 && section_ == "weight_map") {
      fail(fmt::format("weight_map: expected an object from tensors to files, found {}", found));
    }
    if (in_map()) {
      fail(fmt::format("tensor {}: expected the name of a file, found {}", in_quotes(key_), found));
    }
    return true;
  }

  const std::filesystem::path& path_;
  int depth_ = 0;
  std::string section_;  // the root's key at hand
  std::string key_;
};

}  // namespace

std::vector<std::string> SafetensorsIndex::file_names() const {
  std::vector<std::string> names;
  for (const auto& [tensor, file] : files) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

SafetensorsIndex parse_index(std::string_view text, const std::filesystem::path& path) {
  IndexEvents events(path);
  // The parser takes a zero byte for the end of its input and would hide what comes after it.
  if (text.find('\0') != std::string_view::npos) {
    events.fail("expected JSON in UTF-8, found a zero byte");
  }
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  if (!events.has_weight_map) events.fail("'weight_map' is missing");
  if (events.index.files.empty()) events.fail("weight_map: expected tensors, found none");
  return std::move(events.index);
}

SafetensorsIndex read_index(io::FileSystem& files, const std::filesystem::path& path) {
  return parse_index(io::read_text(files, path, kMaxIndexBytes), path);
}

}  // namespace ebb::files
