// A model folder's tokenizer: tokenizer.json and what tokenizer_config.json says about it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/units.h"
#include "io/file_system.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace ebb::text {

inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kChatTemplateFile = "chat_template.jinja";
inline constexpr Bytes kTokenizerBytes = 128 * kMiB;  // of tokenizer.json, at most

struct TokenizerFolder {
  std::unique_ptr<Tokenizer> tokenizer;
  // From chat_template.jinja or tokenizer_config.json; none for models that do not chat.
  std::optional<ChatTemplate> chat;
  // bos_token, eos_token, ...: strings that chat templates and people refer to.
  std::map<std::string, std::string> special_tokens;
  // The names of the folder's files that belong to the tokenizer, to go wherever the model goes.
  std::vector<std::string> files;
};

// Texts of a tokenizer's files by their names, for tokenizers that come in another way.
using TokenizerTexts = std::map<std::string, std::string>;

bool has_tokenizer(io::FileSystem& files, const std::filesystem::path& folder);

// Throws FormatError that names the file and what in it is not supported, ConfigError where there
// is none, IoError where a file cannot be read. Nothing is kept open.
TokenizerFolder load_tokenizer(io::FileSystem& files, const std::filesystem::path& folder);

// The same of texts. `where` stands for the folder in errors.
TokenizerFolder make_tokenizer(const TokenizerTexts& texts, const std::filesystem::path& where);

// The text of the folder's chat template; nothing where it has none.
std::optional<std::string> read_chat_template(io::FileSystem& files,
                                              const std::filesystem::path& folder);

}  // namespace ebb::text
