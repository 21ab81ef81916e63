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

constexpr const char* kConfig = kTokenizerConfigFile;
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr std::array kFiles = {kTokenizerFile, kConfig, kSpecialTokens, kChatTemplateFile};

constexpr Bytes kSmallFileBytes = 16 * kMiB;

std::string quoted(const fs::path& path) { return fmt::format("'{}'", path.string()); }

// A small JSON object, empty where there is no such text.
Json read_object(const TokenizerTexts& texts, const char* name, const fs::path& path) {
  const auto text = texts.find(name);
  if (text == texts.end()) return Json::object();
  // Every token of a vocabulary may have an entry here, too many for the project's Json.
  Json json = Json::object();
  const auto document = parse_sorted_json(text->second, quoted(path));
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
  if (!has_tokenizer(files, folder)) {
    throw ConfigError(fmt::format(
        "there is no {} in '{}'; tokenizers in other files (vocab.json, tokenizer.model) are not "
        "read: load and save the tokenizer with transformers, which writes it",
        kTokenizerFile, folder.string()));
  }
  TokenizerTexts texts;
  for (const char* name : kFiles) {
    if (!files.exists(folder / name)) continue;
    texts[name] = io::read_text(files, folder / name,
                                name == kTokenizerFile ? kTokenizerBytes : kSmallFileBytes);
  }
  return make_tokenizer(texts, folder);
}

std::optional<std::string> read_chat_template(io::FileSystem& files, const fs::path& folder) {
  if (files.exists(folder / kChatTemplateFile)) {
    return io::read_text(files, folder / kChatTemplateFile, kSmallFileBytes);
  }
  if (!files.exists(folder / kConfig)) return std::nullopt;
  const TokenizerTexts texts{{kConfig, io::read_text(files, folder / kConfig, kSmallFileBytes)}};
  return default_template(read_object(texts, kConfig, folder / kConfig));
}

TokenizerFolder make_tokenizer(const TokenizerTexts& texts, const fs::path& where) {
  TokenizerFolder out;
  for (const char* name : kFiles) {
    if (texts.contains(name)) out.files.emplace_back(name);
  }
  const Json config = read_object(texts, kConfig, where / kConfig);
  add_special_tokens(config, out.special_tokens);
  add_special_tokens(read_object(texts, kSpecialTokens, where / kSpecialTokens),
                     out.special_tokens);

  const auto end = out.special_tokens.find("eos_token");
  out.tokenizer = std::make_unique<bpe::BpeTokenizer>(
      texts.at(kTokenizerFile), quoted(where / kTokenizerFile),
      end == out.special_tokens.end() ? std::string_view() : end->second);

  if (const auto text = texts.find(kChatTemplateFile); text != texts.end()) {
    out.chat.emplace(text->second, quoted(where / kChatTemplateFile));
  } else if (const auto source = default_template(config)) {
    out.chat.emplace(*source, quoted(where / kConfig) + ".chat_template");
  }
  return out;
}

}  // namespace ebb::text
