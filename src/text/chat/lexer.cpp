#include "text/chat/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/text_literal.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_binary(char c) { return c == '0' || c == '1'; }
bool is_zero(char c) { return c == '0'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Lines end with \n alone, and the last one's end is dropped.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_lines(source)), text_(source_) {}

  std::vector<Token> run() && {
    while (at_ < text_.size()) read_data();
    add(Token::Kind::end, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string message) const {
    throw SyntaxFailure{line_, std::move(message)};
  }

  bool follows(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }

  void add(Token::Kind kind, std::string value) {
    tokens_.push_back({kind, line_, std::move(value)});
  }

  // Moves on by so many bytes, counting lines. The piece moved over decides whether a line begins.
  void advance(std::size_t count) {
    const std::string_view piece = text_.substr(at_, count);
    line_ += static_cast<int>(std::count(piece.begin(), piece.end(), '\n'));
    if (!piece.empty()) line_begins_ = piece.back() == '\n';
    at_ += piece.size();
  }

  void skip_spaces() {
    const std::string_view rest = text_.substr(at_);
    advance(rest.size() - strip_left(rest).size());
  }

  // The next tag's place, or the end.
  std::size_t find_tag() const {
    for (std::size_t at = text_.find('{', at_); at != std::string_view::npos;
         at = text_.find('{', at + 1))
      if (at + 1 < text_.size() &&
          std::string_view("%{#").find(text_[at + 1]) != std::string_view::npos)
        return at;
    return text_.size();
  }

  // Of the text before a tag, what the tag leaves: `-` takes all space, a block or a comment that
  // stands alone in front of its line takes the line's.
  std::string_view left_by_tag(std::string_view data, char control, bool is_print) const {
    if (control == '-') return strip_right(data);
    if (control == '+' || is_print) return data;
    const std::size_t line = data.rfind('\n') + 1;  // 0 where there is none
    if (line == 0 && !line_begins_) return data;
    return strip_left(data.substr(line)).empty() ? data.substr(0, line) : data;
  }

  char control_at(std::size_t at) const {
    return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
  }

  void add_data(std::string_view data) {
    if (!data.empty()) add(Token::Kind::data, std::string(data));
  }

  void read_data() {
    const std::size_t tag = find_tag();
    const std::string_view data = text_.substr(at_, tag - at_);
    if (tag == text_.size()) {
      add_data(data);
      at_ = tag;
      return;
    }
    const char kind = text_[tag + 1];
    const char control = control_at(tag + 2);
    add_data(left_by_tag(data, control, kind == '{'));
    advance(data.size());
    if (kind == '%' && read_raw()) return;
    const Token::Kind begin = kind == '{' ? Token::Kind::print_begin : Token::Kind::block_begin;
    if (kind != '#') add(begin, {});
    advance(control ? 3 : 2);
    if (kind == '#')
      skip_comment();
    else
      read_tag(kind == '{');
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) fail("a comment without an end, '#}'");
    const char before = end > at_ ? text_[end - 1] : '\0';
    advance(end - at_);
    finish_tag(2, before, true);
  }

  // The end of a tag is at hand: takes it and the space behind it that it swallows.
  void finish_tag(std::size_t length, char control, bool trims_line) {
    advance(length);
    if (control == '-')
      skip_spaces();
    else if (control != '+' && trims_line && follows("\n"))
      advance(1);
  }

  // {% raw %}: everything up to {% endraw %} is text. Stays where it is if this is another tag.
  bool read_raw() {
    const std::size_t start = at_;
    std::string_view rest = text_.substr(at_ + (control_at(at_ + 2) ? 3 : 2));
    rest = strip_left(rest);
    if (!rest.starts_with("raw")) return false;
    rest = strip_left(rest.substr(3));
    const bool strips = rest.starts_with("-%}");
    if (!strips && !rest.starts_with("%}")) return false;
    const int begin_line = line_;
    advance(text_.size() - rest.size() - at_ + (strips ? 3 : 2));
    if (strips) skip_spaces();
    for (std::size_t tag = text_.find("{%", at_); tag != std::string_view::npos;
         tag = text_.find("{%", tag + 1)) {
      const char control = control_at(tag + 2);
      std::string_view end = strip_left(text_.substr(tag + (control ? 3 : 2)));
      if (!end.starts_with("endraw")) continue;
      end = strip_left(end.substr(6));
      const char closing = end.empty() ? '\0' : end[0];
      if (!end.starts_with("%}") && !end.starts_with("-%}") && !end.starts_with("+%}")) continue;
      const std::string_view data = text_.substr(at_, tag - at_);
      add_data(left_by_tag(data, control, false));
      advance(text_.size() - end.size() - at_);
      finish_tag(closing == '%' ? 2 : 3, closing, true);
      return true;
    }
    line_ = begin_line;
    at_ = start;
    fail("'raw' without 'endraw'");
  }

  // The words of one tag, and its end.
  void read_tag(bool is_print) {
    const std::string_view end = is_print ? "}}" : "%}";
    std::string open;  // the brackets that are open
    while (at_ < text_.size()) {
      if (open.empty()) {
        const char control = control_at(at_);
        const bool controlled = control == '-' || (control == '+' && !is_print);
        if (text_.substr(at_ + (controlled ? 1 : 0)).starts_with(end)) {
          add(is_print ? Token::Kind::print_end : Token::Kind::block_end, {});
          finish_tag(controlled ? 3 : 2, control, !is_print);
          return;
        }
      }
      const std::size_t before = at_;
      skip_spaces();
      if (at_ == before) read_word(open);
    }
    fail(fmt::format("a tag without an end, '{}'", end));
  }

  void read_word(std::string& open) {
    const char c = text_[at_];
    if (is_digit(c))
      read_number();
    else if (begins_name(c))
      read_name();
    else if (c == '"' || c == '\'')
      read_text(c);
    else
      read_sign(open);
  }

  // The length of digits from `at` on, with single underscores between them.
  std::size_t digits(std::size_t at, bool (*is_one)(char)) const {
    const std::size_t begin = at;
    while (at < text_.size()) {
      const bool underscore = text_[at] == '_' && at > begin && at + 1 < text_.size();
      if (underscore && is_one(text_[at + 1]))
        at += 2;
      else if (is_one(text_[at]))
        ++at;
      else
        break;
    }
    return at - begin;
  }

  std::size_t real_length() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return 0;
    std::size_t end = at_ + digits(at_, is_digit);
    bool is_real = false;
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
      end += 1 + digits(end + 1, is_digit);
      is_real = true;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const std::size_t exponent = end + 1 + (control_at(end + 1) ? 1 : 0);
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        end = exponent + digits(exponent, is_digit);
        is_real = true;
      }
    }
    return is_real ? end - at_ : 0;
  }

  std::size_t integer_length() const {
    if (text_[at_] != '0') return digits(at_, is_digit);
    const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const std::size_t prefixed = letter == 'x' || letter == 'X'   ? digits(at_ + 2, is_hex)
                                 : letter == 'o' || letter == 'O' ? digits(at_ + 2, is_octal)
                                 : letter == 'b' || letter == 'B' ? digits(at_ + 2, is_binary)
                                                                  : 0;
    return prefixed > 0 ? prefixed + 2 : digits(at_, is_zero);
  }

  void read_number() {
    const std::size_t real = real_length();
    const std::size_t length = real > 0 ? real : integer_length();
    std::string value(text_.substr(at_, length));
    std::erase(value, '_');
    add(real > 0 ? Token::Kind::real : Token::Kind::integer, std::move(value));
    advance(length);
  }

  void read_name() {
    std::size_t end = at_;
    while (end < text_.size() && (begins_name(text_[end]) || is_digit(text_[end]))) ++end;
    if (end < text_.size() && static_cast<unsigned char>(text_[end]) >= 0x80)
      fail("names with letters that are not ASCII are not supported");
    add(Token::Kind::name, std::string(text_.substr(at_, end - at_)));
    advance(end - at_);
  }

  void read_text(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2u : 1u;
    if (end >= text_.size()) fail("a string without its closing quote");
    add(Token::Kind::text, unescape(text_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  void read_sign(std::string& open) {
    for (const std::string_view pair : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!follows(pair)) continue;
      add(Token::Kind::sign, std::string(pair));
      advance(2);
      return;
    }
    const char c = text_[at_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      std::size_t end = at_;
      next_character(text_, end);
      fail(fmt::format("unexpected character '{}'", text_.substr(at_, end - at_)));
    }
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    add(Token::Kind::sign, std::string(1, c));
    advance(1);
  }

  const std::string source_;
  const std::string_view text_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace ebb::text::jinja
