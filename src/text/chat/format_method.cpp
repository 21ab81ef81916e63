// Python's '...'.format(...): fields in braces, with what they say of width, digits and signs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/to_size.h"
#include "text/chat/budget.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/string_methods.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

// What stands behind the colon of a field.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  std::size_t width = 0;
  char grouping = '\0';
  int precision = -1;
  char type = '\0';
};

[[noreturn]] void refuse_spec(std::string_view spec) {
  throw Failure(fmt::format("the format '{}' is not supported", spec.substr(0, 40)));
}

FormatSpec parse_spec(std::string_view spec) {
  FormatSpec out;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  std::size_t at = 0;
  const auto take = [&](std::string_view any) {
    return at < spec.size() && any.find(spec[at]) != std::string_view::npos ? spec[at++] : '\0';
  };
  const auto number = [&](auto& value) {
    const auto [end, problem] = std::from_chars(spec.data() + at, spec.data() + spec.size(), value);
    if (problem != std::errc()) refuse_spec(spec);
    at = to_size(end - spec.data());
  };
  std::size_t behind_fill = 0;
  if (!spec.empty()) next_character(spec, behind_fill);
  if (behind_fill < spec.size() && is_align(spec[behind_fill])) {
    out.fill = spec.substr(0, behind_fill);
    at = behind_fill;
  }
  out.align = take("<>^=");
  if (const char sign = take("+- ")) out.sign = sign;
  if (take("0") != '\0' && out.align == '\0') {
    out.fill = "0";
    out.align = '=';
  }
  if (at < spec.size() && spec[at] >= '1' && spec[at] <= '9') number(out.width);
  out.grouping = take(",_");
  if (take(".") != '\0') number(out.precision);
  // Far past any text that may be made, and small enough to be multiplied.
  constexpr std::size_t widest = std::size_t{1} << 32;
  if (out.precision > 100 || out.width > widest) refuse_spec(spec);
  out.type = take("sdfFeExXob%");
  if (at != spec.size()) refuse_spec(spec);
  return out;
}

// Digits in groups of three, before a point.
std::string grouped(std::string digits, char separator) {
  if (separator == '\0') return digits;
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
  return digits;
}

// `text` is a number's digits without its sign, or any text with the sign "".
std::string padded(std::string_view sign, std::string_view text, FormatSpec spec, char usual,
                   Budget& budget) {
  if (spec.align == '\0') spec.align = usual;
  const std::size_t size = count_characters(text) + sign.size();
  const std::size_t missing = spec.width > size ? spec.width - size : 0;
  budget.spend_text(missing * spec.fill.size() + text.size());
  std::size_t before = missing;
  if (spec.align == '<') before = 0;
  if (spec.align == '^') before = missing / 2;
  std::string out;
  const auto fill = [&](std::size_t count) {
    if (spec.fill.size() == 1) out.append(count, spec.fill[0]);
    for (std::size_t i = 0; i < count && spec.fill.size() > 1; ++i) out += spec.fill;
  };
  if (spec.align == '=') out += sign;
  fill(before);
  if (spec.align != '=') out += sign;
  out += text;
  fill(missing - before);
  return out;
}

std::string format_number(const Value& value, const FormatSpec& spec, std::string_view text,
                          Budget& budget) {
  const bool of_float =
      std::string_view("fFeE%").find(spec.type) != std::string_view::npos && spec.type != '\0';
  bool negative = false;
  std::string digits;
  if (of_float) {
    const double scaled = value.real() * (spec.type == '%' ? 100 : 1);
    if (!std::isfinite(scaled)) refuse_spec(text);
    negative = std::signbit(scaled);
    const char type = spec.type == '%' ? 'f' : spec.type;
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    const double size = std::fabs(scaled);
    digits = type == 'e'   ? fmt::format("{:.{}e}", size, precision)
             : type == 'E' ? fmt::format("{:.{}E}", size, precision)
                           : fmt::format("{:.{}f}", size, precision);
    if (spec.type == '%') digits += '%';
  } else if (const auto whole = value.whole()) {
    if (spec.precision >= 0 || spec.type == 's') refuse_spec(text);
    negative = *whole < 0;
    const std::uint64_t size = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(*whole)
                                        : static_cast<std::uint64_t>(*whole);
    const bool decimal = spec.type == '\0' || spec.type == 'd';
    if (!decimal && spec.grouping != '\0') refuse_spec(text);
    digits = spec.type == 'x'   ? fmt::format("{:x}", size)
             : spec.type == 'X' ? fmt::format("{:X}", size)
             : spec.type == 'o' ? fmt::format("{:o}", size)
             : spec.type == 'b' ? fmt::format("{:b}", size)
                                : fmt::format("{}", size);
  } else {
    // A float without a type: its shortest digits.
    if (spec.precision >= 0 || spec.type != '\0' || !std::isfinite(value.real())) refuse_spec(text);
    negative = std::signbit(value.real());
    digits = to_text(Value(std::fabs(value.real())), budget);
  }
  // Zeros before a number would be grouped, too.
  if (spec.grouping != '\0' && spec.fill == "0" && spec.align == '=') refuse_spec(text);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return padded(sign, grouped(std::move(digits), spec.grouping), spec, '>', budget);
}

std::string formatted(const Value& value, std::string_view text, Budget& budget) {
  if (text.empty()) return to_text(value, budget);
  value.require_defined();
  const FormatSpec spec = parse_spec(text);
  if (value.is_number()) return format_number(value, spec, text, budget);
  const std::string* string = value.if_string();
  const bool plain = spec.sign == '-' && spec.grouping == '\0' && spec.align != '=' &&
                     (spec.type == '\0' || spec.type == 's');
  if (string == nullptr || !plain) refuse_spec(text);
  std::string_view shown = *string;
  if (spec.precision >= 0 && to_size(spec.precision) < count_characters(shown)) {
    shown = shown.substr(0, byte_of_character(shown, to_size(spec.precision)));
  }
  return padded("", shown, spec, '<', budget);
}

struct Numbering {
  std::size_t next = 0;
  bool left_out = false;
  bool written = false;
};

// A field's value: an argument by number, by name or the next one, and what is inside of it.
Value field_of(std::string_view path, const Arguments& arguments, Numbering& numbering,
               Budget& budget) {
  const std::size_t end = std::min(path.find_first_of(".["), path.size());
  const std::string_view first = path.substr(0, end);
  const auto whole_number = [](std::string_view text) -> std::optional<std::size_t> {
    std::size_t number = 0;
    const auto [last, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool good = problem == std::errc() && last == text.data() + text.size();
    return good ? std::optional(number) : std::nullopt;
  };
  Value value;
  if (const auto number = first.empty() ? std::optional(numbering.next++) : whole_number(first)) {
    (first.empty() ? numbering.left_out : numbering.written) = true;
    if (numbering.left_out && numbering.written) {
      throw Failure("the fields of 'format' have numbers, all or none of them");
    }
    if (*number >= arguments.positional.size()) {
      throw Failure("'format' has fewer arguments than its text has fields");
    }
    value = arguments.positional[*number];
  } else {
    const auto named = std::ranges::find(
        arguments.named, first, [](const auto& given) { return std::string_view(given.first); });
    if (named == arguments.named.end())
      throw Failure("'format' has no argument for a field's name");
    value = named->second;
  }
  for (std::string_view rest = path.substr(end); !rest.empty();) {
    budget.spend(1);
    const bool bracket = rest[0] == '[';
    const std::size_t stop =
        bracket ? rest.find(']') : std::min(rest.find_first_of(".[", 1), rest.size());
    if (stop == std::string_view::npos || stop <= 1 || (!bracket && rest[0] != '.')) {
      throw Failure("a field of 'format' is not a name");
    }
    const std::string_view name = rest.substr(1, stop - 1);
    if (!bracket) {
      value = attribute(value, name, budget);
    } else if (const auto index = whole_number(name)) {
      value = subscript(value, Value(static_cast<std::int64_t>(*index)), budget);
    } else {
      value = subscript(value, Value(name), budget);
    }
    rest.remove_prefix(stop + (bracket ? 1 : 0));
  }
  return value;
}

}  // namespace

Value format_text(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string_view text = *self.if_string();
  budget.spend_bytes(text.size());
  std::string out;
  Numbering numbering;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
    budget.spend(1);
    budget.spend_text(out, brace - at);
    out += text.substr(at, brace - at);
    if (brace == text.size()) break;
    at = brace + 1;
    if (at < text.size() && text[at] == text[brace]) {
      out += text[at++];
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (text[brace] == '}' || end == std::string_view::npos) {
      throw Failure("a brace of a format stands alone; one that is meant is written twice");
    }
    std::string_view field = text.substr(at, end - at);
    if (field.find('{') != std::string_view::npos) {
      throw Failure("a field within a field of a format is not supported");
    }
    at = end + 1;
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec =
        colon < field.size() ? field.substr(colon + 1) : std::string_view();
    field = field.substr(0, colon);
    const std::size_t mark = std::min(field.find('!'), field.size());
    const std::string_view conversion = field.substr(mark);
    Value value = field_of(field.substr(0, mark), arguments, numbering, budget);
    if (conversion == "!r") {
      value = repr(value, budget);
    } else if (conversion == "!s") {
      value = to_text(value, budget);
    } else if (!conversion.empty()) {
      throw Failure("a format converts by !r and !s alone");
    }
    const std::string shown = formatted(value, spec, budget);
    budget.spend_text(out, shown.size());
    out += shown;
  }
  return out;
}

}  // namespace ebb::text::jinja
