#include "files/gguf/gguf_files.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kTensorsKey = "split.tensors.count";

// "-00002-of-00003.gguf"
std::string ending(std::int64_t part, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", part + 1, count);
}

GgufPart open_part(io::FileSystem& files, const fs::path& path) {
  GgufPart part{.file = files.open(path), .header = {}};
  part.header = read_gguf_header(*part.file);
  return part;
}

std::int64_t integer_or(const GgufPart& part, std::string_view key, std::int64_t otherwise) {
  const auto found = part.header.values.find(key);
  if (found == part.header.values.end()) return otherwise;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? -1 : *value;
}

}  // namespace

GgufFiles::GgufFiles(io::FileSystem& files, const fs::path& path) {
  parts_.push_back(open_part(files, path));
  const std::int64_t count = integer_or(parts_.front(), kCountKey, 1);
  if (count != 1) open_others(files, count);
  for (const GgufPart& part : parts_) {
    for (const GgufTensor& tensor : part.header.tensors) places_.push_back({&part, &tensor});
  }
  const auto name = [](const Place& place) -> std::string_view { return place.tensor->name; };
  std::ranges::sort(places_, {}, name);
  const auto twice = std::ranges::adjacent_find(places_, {}, name);
  if (twice != places_.end()) {
    refuse(fmt::format("tensor {} is also in '{}'; the files are not parts of one model",
                       in_quotes(twice->tensor->name), twice[1].part->file->path().string()));
  }
  const std::int64_t tensors = integer_or(parts_.front(), kTensorsKey, -1);
  if (count != 1 && tensors >= 0 && tensors != static_cast<std::int64_t>(places_.size())) {
    refuse(fmt::format("{} says {}, but its {} parts have {} tensors; get all parts again",
                       kTensorsKey, tensors, count, places_.size()));
  }
}

// The given part stands for all of them: the others are named like it.
void GgufFiles::open_others(io::FileSystem& files, std::int64_t count) {
  constexpr std::int64_t most = 99'999;
  const std::int64_t given = integer_or(parts_.front(), kNumberKey, 0);
  if (count < 1 || count > most || given < 0 || given >= count) {
    refuse(fmt::format("{} is {} and {} is {}; expected a part of at least 1 and at most {}",
                       kNumberKey, given, kCountKey, count, most));
  }
  const fs::path path = parts_.front().file->path();
  const std::string name = path.filename().string();
  if (!name.ends_with(ending(given, count))) {
    refuse(
        fmt::format("it is part {} of {}, so its name should end with {}, as those of the other "
                    "parts do; give them the names they came with",
                    given + 1, count, ending(given, count)));
  }
  const std::string stem = name.substr(0, name.size() - ending(given, count).size());
  parts_.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    const fs::path other = io::parent_of(path) / (stem + ending(i, count));
    if (!files.exists(other)) {
      throw FormatError(
          fmt::format("'{}': it is one of {} parts, of which '{}' is missing: get "
                      "it, too, into the same folder",
                      path.string(), count, other.filename().string()));
    }
    parts_.push_back(open_part(files, other));
    const std::int64_t number = integer_or(parts_.back(), kNumberKey, -1);
    const std::int64_t counted = integer_or(parts_.back(), kCountKey, -1);
    if (number != i || counted != count) {
      throw FormatError(fmt::format(
          "'{}': its name says part {} of {}, but its {} is {} and its {} is {}; get it again",
          other.string(), i + 1, count, kNumberKey, number, kCountKey, counted));
    }
  }
}

GgufFiles::Place GgufFiles::find(std::string_view tensor) const {
  const auto name = [](const Place& place) -> std::string_view { return place.tensor->name; };
  const auto found = std::ranges::lower_bound(places_, tensor, {}, name);
  return found == places_.end() || name(*found) != tensor ? Place{} : *found;
}

const GgufValue* GgufFiles::find_value(std::string_view key) const {
  const auto& values = parts_.front().header.values;
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second;
}

void GgufFiles::refuse(std::string_view what) const {
  throw FormatError(fmt::format("'{}': {}", path().string(), what));
}

std::optional<std::string> GgufFiles::try_text(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(value);
  if (text == nullptr) refuse(fmt::format("{}: expected a text", key));
  return *text;
}

std::optional<std::int64_t> GgufFiles::try_integer(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(value);
  if (number == nullptr) {
    refuse(fmt::format("{}: expected one whole number{}", key,
                       std::holds_alternative<GgufList>(*value) ? ", found a list" : ""));
  }
  return *number;
}

std::optional<double> GgufFiles::try_number(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(value);
  if (number == nullptr) refuse(fmt::format("{}: expected a number", key));
  return *number;
}

std::optional<bool> GgufFiles::try_boolean(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  const auto* boolean = std::get_if<bool>(value);
  if (boolean == nullptr) refuse(fmt::format("{}: expected true or false", key));
  return *boolean;
}

const GgufList* GgufFiles::find_list(std::string_view key, bool of_texts) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return nullptr;
  const auto* list = std::get_if<GgufList>(value);
  if (list == nullptr || (list->type == GgufValueType::text) != of_texts) {
    refuse(fmt::format("{}: expected a list of {}", key, of_texts ? "texts" : "numbers"));
  }
  return list;
}

std::int64_t GgufFiles::count(std::string_view key) const {
  const GgufValue* value = find_value(key);
  const auto* list = value == nullptr ? nullptr : std::get_if<GgufList>(value);
  return list == nullptr ? 0 : list->count;
}

Bytes GgufFiles::list_bytes(std::string_view key) const {
  const GgufValue* value = find_value(key);
  const auto* list = value == nullptr ? nullptr : std::get_if<GgufList>(value);
  return list == nullptr ? 0 : list->bytes;
}

void GgufFiles::visit_texts(std::string_view key, FunctionRef<void(std::string text)> visit) const {
  if (const GgufList* list = find_list(key, true)) read_texts(*parts_.front().file, *list, visit);
}

std::vector<std::string> GgufFiles::texts(std::string_view key) const {
  std::vector<std::string> texts;
  texts.reserve(to_size(count(key)));
  visit_texts(key, [&](std::string text) { texts.push_back(std::move(text)); });
  return texts;
}

std::vector<double> GgufFiles::numbers(std::string_view key) const {
  const GgufList* list = find_list(key, false);
  return list == nullptr ? std::vector<double>() : read_numbers(*parts_.front().file, *list);
}

}  // namespace ebb::files
