#include "text/byte_tokenizer.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::text {

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  // Through unsigned char: a plain char above 127 would become a negative id.
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary()) {
      throw ConfigError(
          fmt::format("token id {} is outside the vocabulary of the tokenizer '{}', which has ids "
                      "0 to {}; use the tokenizer the model was trained with",
                      id, name(), vocabulary() - 1));
    }
    if (id != kEndOfText) text.push_back(static_cast<char>(id));
  }
  return text;
}

std::optional<std::int32_t> ByteTokenizer::id_of(std::string_view token) const {
  if (token.size() != 1) return std::nullopt;
  return static_cast<unsigned char>(token[0]);
}

}  // namespace ebb::text
