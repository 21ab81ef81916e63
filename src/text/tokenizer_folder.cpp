#include "text/tokenizer_folder.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/json.h"
#include "base/sorted_json.h"
#include "ebb/error.h"
#include "ebb/units.h"
#include "io/text_file.h"
#include "text/bpe/bpe_tokenizer.h"

namespace ebb::text {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kTemplate = "chat_template.jinja";

constexpr Bytes kTokenizerBytes = 128 * kMiB;
constexpr Bytes kSmallFileBytes = 16 * kMiB;

std::string quoted(const fs::path& path) { return fmt::format("'{}'", path.string()); }

// A small JSON object, empty where there is no such file.
Json read_object(io::FileSystem& files, const fs::path& path) {
  if (!files.exists(path)) return Json::object();
  // Every token of a vocabulary may have an entry here, too many for the project's Json.
  Json json = Json::object();
  const auto document =
      parse_sorted_json(io::read_text(files, path, kSmallFileBytes), quoted(path));
  if (!document.is_object()) {
    throw FormatError(fmt::format("{}: expected an object", quoted(path)));
  }
  for (const auto& [key, value] : document.items()) {
    if (key.ends_with("_token") || key == "chat_template") json[key] = value;
  }
  return json;
}

// Tokens are written as strings or as objects with their content.
void add_special_tokens(const Json& json, std::map<std::string, std::string>& out) {
  for (const auto& [key, value] : json.items()) {
    if (!key.ends_with("_token")) continue;
    const Json& content = value.is_object() && value.contains("content") ? value["content"] : value;
    if (content.is_string()) out.emplace(key, content.get<std::string>());
  }
}

// One template, or several with names, of which "default" is meant for plain conversations.
std::optional<std::string> default_template(const Json& config) {
  if (!config.contains("chat_template")) return std::nullopt;
  const Json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::nullopt;
  for (const Json& item : value) {
    if (item.is_object() && item.value("name", Json()) == "default" && item.contains("template") &&
        item["template"].is_string()) {
      return item["template"].get<std::string>();
    }
  }
  return std::nullopt;
}

}  // namespace

bool has_tokenizer(io::FileSystem& files, const fs::path& folder) {
  return files.exists(folder / kTokenizerFile);
}

TokenizerFolder load_tokenizer(io::FileSystem& files, const fs::path& folder) {
  TokenizerFolder out;
  for (const char* name : {kTokenizerFile, kConfig, kSpecialTokens, kTemplate}) {
    if (files.exists(folder / name)) out.files.emplace_back(name);
  }
  if (!has_tokenizer(files, folder)) {
    throw ConfigError(fmt::format(
        "there is no {} in '{}'; tokenizers in other files (vocab.json, tokenizer.model) are not "
        "read: load and save the tokenizer with transformers, which writes it",
        kTokenizerFile, folder.string()));
  }
  const Json config = read_object(files, folder / kConfig);
  add_special_tokens(config, out.special_tokens);
  add_special_tokens(read_object(files, folder / kSpecialTokens), out.special_tokens);

  const auto end = out.special_tokens.find("eos_token");
  out.tokenizer = std::make_unique<bpe::BpeTokenizer>(
      io::read_text(files, folder / kTokenizerFile, kTokenizerBytes),
      quoted(folder / kTokenizerFile),
      end == out.special_tokens.end() ? std::string_view() : end->second);

  if (files.exists(folder / kTemplate)) {
    out.chat.emplace(io::read_text(files, folder / kTemplate, kSmallFileBytes),
                     quoted(folder / kTemplate));
  } else if (const auto source = default_template(config)) {
    out.chat.emplace(*source, quoted(folder / kConfig) + ".chat_template");
  }
  return out;
}

}  // namespace ebb::text
