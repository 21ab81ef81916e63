#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace ebb::utf8 {

void append_character(char32_t character, std::string& out) {
  const auto byte = [&](char32_t value) { out.push_back(static_cast<char>(value)); };
  const auto continuation = [&](int shift) { byte(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) {
    byte(character);
  } else if (character < 0x800) {
    byte(0xc0 | character >> 6);
    continuation(0);
  } else if (character < 0x10000) {
    byte(0xe0 | character >> 12);
    continuation(6);
    continuation(0);
  } else {
    byte(0xf0 | character >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= sizeof(std::uint64_t)) {
      std::uint64_t eight;
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    if (lead < 0xc2 || lead > 0xf4) return at;
    const std::size_t bytes = character_bytes(text[at]);
    if (text.size() - at < bytes) return at;
    for (std::size_t i = 1; i < bytes; ++i) {
      if (begins_character(text[at + i])) return at;
    }
    // Overlong forms, surrogates, and what lies beyond U+10FFFF.
    const auto second = static_cast<unsigned char>(text[at + 1]);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
      return at;
    }
    at += bytes;
  }
  return at;
}

}  // namespace ebb::utf8
