#include "text/chat/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "base/to_size.h"

namespace ebb::text::jinja {
namespace {

bool is_tail(char byte) { return !utf8::begins_character(byte); }

// Where the character that ends before `end` begins.
std::size_t previous(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && is_tail(text[end]));
  return end;
}

bool is_among(char32_t wanted, const std::string* characters) {
  if (!characters) return is_space(wanted);
  for (std::size_t at = 0; at < characters->size();)
    if (next_character(*characters, at) == wanted) return true;
  return false;
}

}  // namespace

std::size_t count_characters(std::string_view text) {
  return to_size(std::count_if(text.begin(), text.end(), [](char byte) { return !is_tail(byte); }));
}

std::size_t byte_of_character(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (!is_tail(text[at]) && index-- == 0) break;
  return at;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f) || c == 0x85 ||
         c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_printable(char32_t character) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return character == ' ';
    default: return true;
  }
}

std::string_view strip_left(std::string_view text, const std::string* characters) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_among(next_character(text, next), characters)) break;
    at = next;
  }
  return text.substr(at);
}

std::string_view strip_right(std::string_view text, const std::string* characters) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t begin = previous(text, end);
    std::size_t at = begin;
    if (!is_among(next_character(text, at), characters)) break;
    end = begin;
  }
  return text.substr(0, end);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = next_character(text, at);
    if (!((c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
          c == 0x2029))
      continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace ebb::text::jinja
