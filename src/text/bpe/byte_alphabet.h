// Byte-level vocabularies spell every byte as a character that can be printed: the printable ones
// of Latin-1 stand for themselves, the others for the characters from U+0100 on, in order.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

inline const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> characters{};
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
      characters[byte] = printable ? byte : next++;
    }
    return characters;
  }();
  return alphabet;
}

inline std::string spell_bytes(std::string_view bytes) {
  std::string spelled;
  spelled.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    append_character(byte_alphabet()[static_cast<unsigned char>(byte)], spelled);
  }
  return spelled;
}

// None where a character stands for no byte.
inline std::optional<std::string> read_bytes(std::string_view spelled) {
  static const std::array<int, 0x180> bytes = [] {
    std::array<int, 0x180> table{};
    table.fill(-1);
    for (unsigned byte = 0; byte < 256; ++byte)
      table[byte_alphabet()[byte]] = static_cast<int>(byte);
    return table;
  }();
  std::string out;
  for (std::size_t at = 0; at < spelled.size();) {
    const char32_t character = next_character(spelled, at);
    if (character >= bytes.size() || bytes[character] < 0) return std::nullopt;
    out.push_back(static_cast<char>(bytes[character]));
  }
  return out;
}

}  // namespace ebb::text::bpe
