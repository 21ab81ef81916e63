// UTF-8, read and written one character at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebb::text::bpe {

// The bytes of a character that begins with `lead`, in valid UTF-8.
inline std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Whether a character begins at this byte, in valid UTF-8.
inline bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The character at `at`, which moves behind it. The text must be valid.
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

// Where the first byte lies that is not part of a valid character; text.size() where none is.
std::size_t valid_bytes(std::string_view text);

// The text itself, or, where it is not UTF-8, a copy in `storage` with U+FFFD in place of what is
// not: one for each longest run that began like a character.
std::string_view as_utf8(std::string_view text, std::string& storage);

// Unicode's White_Space.
bool is_space(char32_t character);

}  // namespace ebb::text::bpe
