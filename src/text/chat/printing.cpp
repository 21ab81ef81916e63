#include "text/chat/printing.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/to_size.h"
#include "text/chat/budget.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

void append_repr(const Value& value, std::string& out, Budget& budget);

void append_escape(char32_t character, std::string& out) {
  const auto code = static_cast<std::uint32_t>(character);
  if (code < 0x100)
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", code);
  else if (code < 0x10000)
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
  else
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", code);
}

void append_quoted(const std::string& text, std::string& out) {
  const bool has_single = text.find('\'') != std::string::npos;
  const bool has_double = text.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t character = next_character(text, at);
    if (character == static_cast<char32_t>(quote) || character == '\\') {
      out += '\\';
      out += static_cast<char>(character);
    } else if (character == '\n') {
      out += "\\n";
    } else if (character == '\r') {
      out += "\\r";
    } else if (character == '\t') {
      out += "\\t";
    } else if (is_printable(character)) {
      out.append(text, begin, at - begin);
    } else {
      append_escape(character, out);
    }
  }
  out += quote;
}

// The shortest digits that read back as the same number, laid out as Python does.
void append_float(double number, std::string& out) {
  if (std::isnan(number)) {
    out += "nan";
    return;
  }
  if (std::isinf(number)) {
    out += number < 0 ? "-inf" : "inf";
    return;
  }
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, number, std::chars_format::scientific);
  const std::string_view shortest(digits, to_size(end.ptr - digits));
  std::size_t sign = shortest.find('e') + 1;
  if (shortest[sign] == '+') ++sign;  // which from_chars does not take
  int exponent = 0;
  std::from_chars(digits + sign, end.ptr, exponent);
  if (exponent < -4 || exponent >= 16) {
    out += shortest;
    return;
  }
  const auto fixed =
      std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed);
  const std::string_view plain(digits, to_size(fixed.ptr - digits));
  out += plain;
  if (plain.find('.') == std::string_view::npos) out += ".0";
}

void append_items(const Items& items, std::string_view open, std::string_view close,
                  std::string& out, Budget& budget) {
  out += open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(items[i], out, budget);
  }
  out += close;
}

void append_entries(const Entries& entries, std::string& out, Budget& budget) {
  out += '{';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(entries[i].first, out, budget);
    out += ": ";
    append_repr(entries[i].second, out, budget);
  }
  out += '}';
}

void append_object(const Value& value, std::string& out, Budget& budget) {
  const auto* iterable = value.if_object<Iterable>();
  if (!iterable || !iterable->has_length() || iterable->has_index())
    throw Failure(fmt::format("a '{}' cannot be printed{}", value.type_name(),
                              iterable ? "; make a list of it with '|list'" : ""));
  out += iterable->type_name();
  append_items(iterable->items()->items, "([", "])", out, budget);
}

void append_repr(const Value& value, std::string& out, Budget& budget) {
  budget.spend(1);
  if (const auto* text = value.if_string()) {
    budget.spend_bytes(text->size());
    append_quoted(*text, out);
  } else if (const auto list = value.if_list()) {
    const bool lone = list->is_tuple && list->items.size() == 1;
    append_items(list->items, list->is_tuple ? "(" : "[",
                 lone             ? ",)"
                 : list->is_tuple ? ")"
                                  : "]",
                 out, budget);
  } else if (const auto* dict = value.if_dict()) {
    append_entries(dict->entries, out, budget);
  } else if (const auto* number = value.if_integer()) {
    out += std::to_string(*number);
  } else if (const auto* real = value.if_float()) {
    append_float(*real, out);
  } else if (value.is_bool()) {
    out += value.truth() ? "True" : "False";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else {
    append_object(value, out, budget);
  }
  budget.spend_text(out, 0);
}

}  // namespace

void append_text(const Value& value, std::string& out, Budget& budget) {
  if (const auto* text = value.if_string()) {
    budget.spend_text(out, text->size());
    out += *text;
  } else if (!value.is_undefined()) {
    append_repr(value, out, budget);
  }
}

std::string to_text(const Value& value, Budget& budget) {
  std::string out;
  append_text(value, out, budget);
  return out;
}

std::string repr(const Value& value, Budget& budget) {
  std::string out;
  append_repr(value, out, budget);
  return out;
}

}  // namespace ebb::text::jinja
