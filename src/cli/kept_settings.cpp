#include "cli/kept_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "cli/words.h"
#include "ebb/types.h"
#include "ebb/version.h"

namespace ebb::cli {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::value(text);
  return out.str();
}

std::string from_root(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

// Words such as preset:small or bytes, which stand where a path may, stay what they are.
std::string with_whole_path(const std::string& word, const std::string& type) {
  std::error_code error;
  if (type == kFileType) return from_root(word);
  if (type == kPathType) return fs::exists(word, error) ? from_root(word) : word;
  if (type == kDiskType) {
    const DiskFolder disk = parse_disk_folder(word);
    return from_root(disk.path) + (disk.bytes ? fmt::format(":{}", *disk.bytes) : "");
  }
  return word;
}

template <class Number>
std::optional<Number> whole_as(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A number where the flag takes numbers and TOML can write this one, else a text.
std::string value_text(const std::string& word, const std::string& type) {
  const bool whole = type == "INT" || type == "UINT";
  if (const auto number = whole_as<std::int64_t>(word); whole && number) {
    return fmt::to_string(*number);
  }
  if (const auto number = whole_as<double>(word); type == "FLOAT" && number) {
    if (std::isfinite(*number)) return fmt::to_string(*number);
  }
  return quoted(with_whole_path(word, type));
}

// " = 500"; empty where the flag has no value.
std::string assignment(const CLI::Option& option) {
  std::vector<std::string> words = option.results();
  if (option.get_items_expected_max() == 0) {
    if (words.empty()) return {};
    const bool on = words.back() == option.get_flag_value(option.get_lnames().front(), "");
    return on ? " = true" : " = false";
  }
  if (words.empty() && !option.get_default_str().empty()) words = {option.get_default_str()};
  if (words.empty()) return {};
  std::vector<std::string> values;
  for (const std::string& word : words) {
    values.push_back(value_text(word, option.get_type_name()));
  }
  if (values.size() == 1) return " = " + values.front();
  return fmt::format(" = [{}]", fmt::join(values, ", "));
}

}  // namespace

std::string settings_text(const CLI::App& verb, const std::vector<std::string>& without) {
  std::string text = fmt::format(
      "# The settings of a run of 'ebb {1}', ebb {0}, written whenever it starts or goes on. What\n"
      "# 'ebb {1} --resume FOLDER' says besides wins over them.\n",
      kVersion, verb.get_name());
  const std::vector<const CLI::Option*> options = verb.get_options();
  for (const std::string& group : verb.get_groups()) {
    std::string lines;
    for (const CLI::Option* option : options) {
      if (option->get_group() != group || option->get_lnames().empty()) continue;
      const std::string& name = option->get_lnames().front();
      if (option == verb.get_help_ptr() || std::ranges::count(without, name) > 0) continue;
      if (const std::string value = assignment(*option); !value.empty())
        lines += name + value + '\n';
    }
    if (!lines.empty()) text += fmt::format("\n# {}\n{}", group, lines);
  }
  return text;
}

}  // namespace ebb::cli
