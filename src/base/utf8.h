// UTF-8, read and written one character at a time. What comes from outside is checked with
// valid_bytes() at the door; the other functions take it that text is valid.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::utf8 {

// The bytes of a character that begins with `lead`, in valid UTF-8.
inline std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Whether a character begins at this byte, in valid UTF-8.
inline bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The character at `at`, which moves behind it.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const std::size_t bytes = character_bytes(text[at]);
  char32_t character = byte(0);
  if (bytes == 2) {
    character = (character & 0x1f) << 6 | (byte(1) & 0x3f);
  } else if (bytes == 3) {
    character = (character & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  } else if (bytes == 4) {
    character = (character & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 |
                (byte(3) & 0x3f);
  }
  at += bytes;
  return character;
}

void append_character(char32_t character, std::string& out);

// Where the first character begins that is not valid: a stray or overlong byte, the lead of a
// character that is not completed, a surrogate, a value beyond U+10FFFF. text.size() where none is.
std::size_t valid_bytes(std::string_view text);

// The same as an answer to whether there is one.
inline std::optional<std::size_t> find_invalid(std::string_view text) {
  const std::size_t at = valid_bytes(text);
  return at == text.size() ? std::nullopt : std::optional(at);
}

}  // namespace ebb::utf8
