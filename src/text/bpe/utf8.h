// What tokenizers do with UTF-8 beside reading it.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace ebb::text::bpe {

using utf8::append_character;
using utf8::begins_character;
using utf8::character_bytes;
using utf8::next_character;
using utf8::valid_bytes;

// The text itself, or, where it is not UTF-8, a copy in `storage` with U+FFFD in place of what is
// not: one for each longest run that began like a character.
std::string_view as_utf8(std::string_view text, std::string& storage);

// Unicode's White_Space.
bool is_space(char32_t character);

}  // namespace ebb::text::bpe
