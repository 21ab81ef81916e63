// Unicode's case mappings as Python's str has them. utf8proc knows those of one character to one;
// what becomes several is listed here, from Unicode's SpecialCasing.txt.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

struct SpecialCase {
  char16_t character;
  const char16_t* upper;
  const char16_t* title;
};

// Sorted. Greek letters with an iota below them, U+1F80 to U+1FAF, follow a rule instead.
constexpr SpecialCase kSpecialCases[] = {
    {0x00df, u"SS", u"Ss"},
    {0x0149, u"\u02bcN", u"\u02bcN"},
    {0x01f0, u"J\u030c", u"J\u030c"},
    {0x0390, u"\u0399\u0308\u0301", u"\u0399\u0308\u0301"},
    {0x03b0, u"\u03a5\u0308\u0301", u"\u03a5\u0308\u0301"},
    {0x0587, u"\u0535\u0552", u"\u0535\u0582"},
    {0x1e96, u"H\u0331", u"H\u0331"},
    {0x1e97, u"T\u0308", u"T\u0308"},
    {0x1e98, u"W\u030a", u"W\u030a"},
    {0x1e99, u"Y\u030a", u"Y\u030a"},
    {0x1e9a, u"A\u02be", u"A\u02be"},
    {0x1f50, u"\u03a5\u0313", u"\u03a5\u0313"},
    {0x1f52, u"\u03a5\u0313\u0300", u"\u03a5\u0313\u0300"},
    {0x1f54, u"\u03a5\u0313\u0301", u"\u03a5\u0313\u0301"},
    {0x1f56, u"\u03a5\u0313\u0342", u"\u03a5\u0313\u0342"},
    {0x1fb2, u"\u1fba\u0399", u"\u1fba\u0345"},
    {0x1fb3, u"\u0391\u0399", u"\u1fbc"},
    {0x1fb4, u"\u0386\u0399", u"\u0386\u0345"},
    {0x1fb6, u"\u0391\u0342", u"\u0391\u0342"},
    {0x1fb7, u"\u0391\u0342\u0399", u"\u0391\u0342\u0345"},
    {0x1fbc, u"\u0391\u0399", u"\u1fbc"},
    {0x1fc2, u"\u1fca\u0399", u"\u1fca\u0345"},
    {0x1fc3, u"\u0397\u0399", u"\u1fcc"},
    {0x1fc4, u"\u0389\u0399", u"\u0389\u0345"},
    {0x1fc6, u"\u0397\u0342", u"\u0397\u0342"},
    {0x1fc7, u"\u0397\u0342\u0399", u"\u0397\u0342\u0345"},
    {0x1fcc, u"\u0397\u0399", u"\u1fcc"},
    {0x1fd2, u"\u0399\u0308\u0300", u"\u0399\u0308\u0300"},
    {0x1fd3, u"\u0399\u0308\u0301", u"\u0399\u0308\u0301"},
    {0x1fd6, u"\u0399\u0342", u"\u0399\u0342"},
    {0x1fd7, u"\u0399\u0308\u0342", u"\u0399\u0308\u0342"},
    {0x1fe2, u"\u03a5\u0308\u0300", u"\u03a5\u0308\u0300"},
    {0x1fe3, u"\u03a5\u0308\u0301", u"\u03a5\u0308\u0301"},
    {0x1fe4, u"\u03a1\u0313", u"\u03a1\u0313"},
    {0x1fe6, u"\u03a5\u0342", u"\u03a5\u0342"},
    {0x1fe7, u"\u03a5\u0308\u0342", u"\u03a5\u0308\u0342"},
    {0x1ff2, u"\u1ffa\u0399", u"\u1ffa\u0345"},
    {0x1ff3, u"\u03a9\u0399", u"\u1ffc"},
    {0x1ff4, u"\u038f\u0399", u"\u038f\u0345"},
    {0x1ff6, u"\u03a9\u0342", u"\u03a9\u0342"},
    {0x1ff7, u"\u03a9\u0342\u0399", u"\u03a9\u0342\u0345"},
    {0x1ffc, u"\u03a9\u0399", u"\u1ffc"},
    {0xfb00, u"FF", u"Ff"},
    {0xfb01, u"FI", u"Fi"},
    {0xfb02, u"FL", u"Fl"},
    {0xfb03, u"FFI", u"Ffi"},
    {0xfb04, u"FFL", u"Ffl"},
    {0xfb05, u"ST", u"St"},
    {0xfb06, u"ST", u"St"},
    {0xfb13, u"\u0544\u0546", u"\u0544\u0576"},
    {0xfb14, u"\u0544\u0535", u"\u0544\u0565"},
    {0xfb15, u"\u0544\u053b", u"\u0544\u056b"},
    {0xfb16, u"\u054e\u0546", u"\u054e\u0576"},
    {0xfb17, u"\u0544\u053d", u"\u0544\u056d"},
};

const SpecialCase* special_case(char32_t character) {
  const auto* found = std::lower_bound(
      std::begin(kSpecialCases), std::end(kSpecialCases), character,
      [](const SpecialCase& entry, char32_t wanted) { return entry.character < wanted; });
  return found != std::end(kSpecialCases) && found->character == character ? found : nullptr;
}

bool has_iota_below(char32_t character) { return character >= 0x1f80 && character <= 0x1faf; }

void append_all(const char16_t* characters, std::string& out) {
  for (; *characters; ++characters) append_character(*characters, out);
}

utf8proc_int32_t plain(char32_t character) { return static_cast<utf8proc_int32_t>(character); }

void append_upper(char32_t character, std::string& out) {
  if (character < 0x80) {
    out += static_cast<char>(character >= 'a' && character <= 'z' ? character - 32 : character);
  } else if (has_iota_below(character)) {
    constexpr std::array<char32_t, 3> letters = {0x1f08, 0x1f28, 0x1f68};
    append_character(letters[(character - 0x1f80) / 16] + (character & 7), out);
    append_character(0x0399, out);
  } else if (const SpecialCase* special = special_case(character)) {
    append_all(special->upper, out);
  } else {
    append_character(static_cast<char32_t>(utf8proc_toupper(plain(character))), out);
  }
}

void append_title(char32_t character, std::string& out) {
  if (character < 0x80)
    append_upper(character, out);
  else if (has_iota_below(character))
    append_character(character | 8, out);
  else if (const SpecialCase* special = special_case(character))
    append_all(special->title, out);
  else
    append_character(static_cast<char32_t>(utf8proc_totitle(plain(character))), out);
}

enum class Case { none, lower, upper, title };

// By the category alone: the few hundred signs that Unicode counts as lower case without calling
// them letters of that case (ª, ⅰ, ⓐ) are none here.
Case case_of(char32_t character) {
  switch (utf8proc_category(plain(character))) {
    case UTF8PROC_CATEGORY_LL: return Case::lower;
    case UTF8PROC_CATEGORY_LU: return Case::upper;
    case UTF8PROC_CATEGORY_LT: return Case::title;
    default: return Case::none;
  }
}

// Marks and such between letters do not end a word when a sigma asks whether it is the last letter.
bool is_ignored_by_sigma(char32_t character) {
  switch (utf8proc_category(plain(character))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default:
      return character == '\'' || character == '.' || character == ':' || character == 0xb7 ||
             character == 0x2019;
  }
}

bool ends_with_letter(std::string_view before) {
  bool letter = false;
  for (std::size_t at = 0; at < before.size();) {
    const char32_t character = next_character(before, at);
    if (!is_ignored_by_sigma(character)) letter = case_of(character) != Case::none;
  }
  return letter;
}

bool begins_with_letter(std::string_view after) {
  for (std::size_t at = 0; at < after.size();) {
    const char32_t character = next_character(after, at);
    if (!is_ignored_by_sigma(character)) return case_of(character) != Case::none;
  }
  return false;
}

// Lower case of the character at `at`, which moves behind it.
void append_lower(std::string_view text, std::size_t& at, std::string& out) {
  const std::size_t from = at;
  const char32_t character = next_character(text, at);
  if (character < 0x80) {
    out += static_cast<char>(character >= 'A' && character <= 'Z' ? character + 32 : character);
  } else if (character == 0x0130) {
    out += "i\u0307";
  } else if (character == 0x03a3) {
    // A sigma at the end of a word has a form of its own. A window keeps hostile text linear.
    constexpr std::size_t window = 64;
    std::size_t begin = from > window ? from - window : 0;
    while (begin < from && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) ++begin;
    const bool last = ends_with_letter(text.substr(begin, from - begin)) &&
                      !begins_with_letter(text.substr(at, window));
    append_character(last ? 0x03c2 : 0x03c3, out);
  } else {
    append_character(static_cast<char32_t>(utf8proc_tolower(plain(character))), out);
  }
}

// Whether some letter is of that case, and none of another.
bool is_all(std::string_view text, Case wanted) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const Case is = case_of(next_character(text, at));
    if (is != Case::none && is != wanted) return false;
    found = found || is == wanted;
  }
  return found;
}

}  // namespace

std::string upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_upper(next_character(text, at), out);
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) append_lower(text, at, out);
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  if (at < text.size()) append_title(next_character(text, at), out);
  while (at < text.size()) append_lower(text, at, out);
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t next = at;
    const char32_t character = next_character(text, next);
    if (in_word)
      append_lower(text, at, out);
    else
      append_title(character, out);
    at = next;
    in_word = case_of(character) != Case::none;
  }
  return out;
}

bool is_upper(std::string_view text) { return is_all(text, Case::upper); }
bool is_lower(std::string_view text) { return is_all(text, Case::lower); }

}  // namespace ebb::text::jinja
