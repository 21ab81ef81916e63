#include "text/chat/text_literal.h"

#include <charconv>
#include <cstdint>

#include "text/chat/lexer.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

void append_code(std::uint32_t code, std::string& out, int line) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    throw SyntaxFailure{line, "an escape in a string stands for no Unicode character"};
  append_character(code, out);
}

// `count` digits, of which all are needed.
void append_hex(std::string_view literal, std::size_t& at, std::size_t count, std::string& out,
                int line) {
  const std::string_view digits = literal.substr(at, count);
  std::uint32_t code = 0;
  const char* end = digits.data() + digits.size();
  if (digits.size() < count || std::from_chars(digits.data(), end, code, 16).ptr != end)
    throw SyntaxFailure{line, "an escape in a string is cut short"};
  at += count;
  append_code(code, out, line);
}

void append_octal(std::string_view literal, std::size_t& at, std::string& out, int line) {
  std::uint32_t code = 0;
  for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7'; ++i)
    code = code * 8 + static_cast<std::uint32_t>(literal[at++] - '0');
  append_code(code, out, line);
}

}  // namespace

std::string unescape(std::string_view literal, int line) {
  std::string out;
  for (std::size_t at = 0; at < literal.size();) {
    const char c = literal[at++];
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escaped = literal[at];  // a backslash is never the last: it would escape the quote
    if (escaped >= '0' && escaped <= '7') {
      append_octal(literal, at, out, line);
      continue;
    }
    ++at;
    switch (escaped) {
      case '\n': break;
      case '\\':
      case '\'':
      case '"': out += escaped; break;
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'v': out += '\v'; break;
      case 'x': append_hex(literal, at, 2, out, line); break;
      case 'u': append_hex(literal, at, 4, out, line); break;
      case 'U': append_hex(literal, at, 8, out, line); break;
      case 'N': throw SyntaxFailure{line, "escapes by name, '\\N{...}', are not supported"};
      default:
        if (static_cast<unsigned char>(escaped) >= 0x80)
          throw SyntaxFailure{line, "a backslash before a character that is not ASCII"};
        out += '\\';
        out += escaped;
    }
  }
  return out;
}

}  // namespace ebb::text::jinja
