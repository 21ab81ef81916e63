// UTF-8 text as Python's str sees it: counted in code points, with Unicode's spaces and cases. All
// text here is valid UTF-8: what comes from outside is checked at the door.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace ebb::text::jinja {

using utf8::append_character;
using utf8::next_character;

inline bool is_valid_utf8(std::string_view text) { return utf8::valid_bytes(text) == text.size(); }

std::size_t count_characters(std::string_view text);
// Where the character with this index begins; the end of the text if there is none.
std::size_t byte_of_character(std::string_view text, std::size_t index);

bool is_space(char32_t character);
// Shown as it is by repr(); else as an escape.
bool is_printable(char32_t character);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// The first character as in titles, the others lower.
std::string capitalize(std::string_view text);
// So for each run of letters.
std::string title(std::string_view text);
// Whether it has letters with a case, and all of them are of that case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

// Without the characters of `characters` at that end, or without spaces where it is null.
std::string_view strip_left(std::string_view text, const std::string* characters = nullptr);
std::string_view strip_right(std::string_view text, const std::string* characters = nullptr);

// Without their ends: \n, \r\n and the other eight that Python knows.
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace ebb::text::jinja
