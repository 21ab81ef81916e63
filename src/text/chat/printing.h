// Values as text: Python's str() and repr(), JSON as transformers' tojson writes it, and values
// from JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "text/chat/value.h"

namespace ebb::text::jinja {

// str(): a string as it is, nothing for what is undefined. Throws Failure for what has an address
// in its text (functions, generators): no template means to print that.
std::string to_text(const Value& value, Budget& budget);
// As `to_text`, onto `out`, without a copy of strings.
void append_text(const Value& value, std::string& out, Budget& budget);
std::string repr(const Value& value, Budget& budget);

struct JsonStyle {
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
  const std::string* indent = nullptr;  // one line without it
  bool escape_non_ascii = false;
  bool sort_keys = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

// Throws Failure for text that is not UTF-8, integers past 64 bits, and nesting too deep.
Value from_json(const Json& json);

}  // namespace ebb::text::jinja
