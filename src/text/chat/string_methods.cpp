#include "text/chat/string_methods.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/budget.h"
#include "text/chat/methods.h"
#include "text/chat/operators.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

// The receiver's text. Work on it costs its length.
const std::string& text_of(const Value& self, Budget& budget) {
  const std::string& text = *self.if_string();
  budget.spend_bytes(text.size());
  return text;
}

void spend_strip(const std::string& text, const std::string* characters, Budget& budget) {
  if (characters) budget.spend(text.size() / 64 * (1 + characters->size() / 4));
}

Value strip(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("strip", arguments, {""});
  const std::string& text = text_of(self, budget);
  spend_strip(text, bound.text(0), budget);
  return strip_left(strip_right(text, bound.text(0)), bound.text(0));
}

Value lstrip(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("lstrip", arguments, {""});
  const std::string& text = text_of(self, budget);
  spend_strip(text, bound.text(0), budget);
  return strip_left(text, bound.text(0));
}

Value rstrip(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("rstrip", arguments, {""});
  const std::string& text = text_of(self, budget);
  spend_strip(text, bound.text(0), budget);
  return strip_right(text, bound.text(0));
}

template <std::string (*change)(std::string_view)>
Value with_case(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("a method that changes case", arguments, {});
  const std::string& text = text_of(self, budget);
  budget.spend(text.size() / 8);
  return change(text);
}

Items split_at_spaces(std::string_view text, std::int64_t most) {
  Items parts;
  text = strip_left(text);
  while (!text.empty()) {
    if (most-- == 0) {
      parts.emplace_back(text);
      break;
    }
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); end = at)
      if (is_space(next_character(text, at))) break;
    parts.emplace_back(text.substr(0, end));
    text = strip_left(text.substr(end));
  }
  return parts;
}

Value split(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const std::string_view text = text_of(self, budget);
  budget.spend(text.size() / 4);  // at worst every other byte becomes a string
  std::int64_t most = bound.whole(1, -1);
  const std::string* separator = bound.text(0);
  if (!separator) return Value::list(split_at_spaces(text, most));
  if (separator->empty()) throw Failure("split: empty separator");
  Items parts;
  std::size_t begin = 0;
  for (; most != 0; --most) {
    const std::size_t end = find_text(text, *separator, begin);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + separator->size();
  }
  parts.emplace_back(text.substr(begin));
  return Value::list(std::move(parts));
}

Value rsplit(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("rsplit", arguments, {"sep", "maxsplit"});
  const std::int64_t most = bound.whole(1, -1);
  if (most < 0) return split(self, arguments, budget);
  const std::string* separator = bound.text(0);
  if (!separator) throw Failure("rsplit at spaces with a largest number is not supported");
  if (separator->empty()) throw Failure("rsplit: empty separator");
  std::string_view text = text_of(self, budget);
  budget.spend(text.size() / 4);
  budget.spend_bytes(separator->size() * text.size());  // a search backwards may take that long
  Items parts;
  for (std::int64_t i = 0; i < most; ++i) {
    const std::size_t at = text.rfind(*separator);
    if (at == std::string_view::npos) break;
    parts.emplace_back(text.substr(at + separator->size()));
    text = text.substr(0, at);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return Value::list(std::move(parts));
}

Value splitlines(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("splitlines", arguments, {});
  const std::string& text = text_of(self, budget);
  budget.spend(text.size() / 4);
  Items lines;
  for (const std::string_view line : split_lines(text)) lines.emplace_back(line);
  return Value::list(std::move(lines));
}

// One string or a tuple of them.
template <class Matches>
Value matches_any(std::string_view method, const Arguments& arguments, Budget& budget,
                  Matches matches) {
  const Bound bound(method, arguments, {""}, 1);
  const auto tuple = bound[0]->if_list();
  if (!tuple || !tuple->is_tuple) {
    if (!bound.text(0)) throw Failure(fmt::format("'{}' needs a string", method));
    return matches(*bound.text(0));
  }
  budget.spend(tuple->items.size());
  for (const Value& item : tuple->items) {
    if (!item.if_string()) throw Failure(fmt::format("'{}' needs a tuple of strings", method));
    if (matches(*item.if_string())) return true;
  }
  return false;
}

Value startswith(const Value& self, const Arguments& arguments, Budget& budget) {
  return matches_any("startswith", arguments, budget, [&](const std::string& wanted) {
    budget.spend_bytes(wanted.size());
    return self.if_string()->starts_with(wanted);
  });
}

Value endswith(const Value& self, const Arguments& arguments, Budget& budget) {
  return matches_any("endswith", arguments, budget, [&](const std::string& wanted) {
    budget.spend_bytes(wanted.size());
    return self.if_string()->ends_with(wanted);
  });
}

Value removeprefix(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("removeprefix", arguments, {""}, 1);
  const std::string& text = text_of(self, budget);
  const std::string* prefix = bound.text(0);
  if (!prefix) throw Failure("'removeprefix' needs a string");
  return text.starts_with(*prefix) ? Value(text.substr(prefix->size())) : self;
}

Value removesuffix(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("removesuffix", arguments, {""}, 1);
  const std::string& text = text_of(self, budget);
  const std::string* suffix = bound.text(0);
  if (!suffix) throw Failure("'removesuffix' needs a string");
  return text.ends_with(*suffix) ? Value(text.substr(0, text.size() - suffix->size())) : self;
}

Value replace(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("replace", arguments, {"", "", ""}, 2);
  const std::string *old = bound.text(0), *fresh = bound.text(1);
  if (!old || !fresh) throw Failure("'replace' needs strings");
  return replace_text(*self.if_string(), *old, *fresh, bound.whole(2, -1), budget);
}

Value find(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("find", arguments, {""}, 1);
  const std::string& text = text_of(self, budget);
  if (!bound.text(0)) throw Failure("'find' needs a string");
  const std::size_t at = find_text(text, *bound.text(0));
  if (at == std::string_view::npos) return -1;
  return count_characters(std::string_view(text).substr(0, at));
}

Value count(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("count", arguments, {""}, 1);
  const std::string& text = text_of(self, budget);
  const std::string* wanted = bound.text(0);
  if (!wanted) throw Failure("'count' needs a string");
  if (wanted->empty()) return count_characters(text) + 1;
  std::int64_t found = 0;
  for (std::size_t at = find_text(text, *wanted); at != std::string_view::npos;
       at = find_text(text, *wanted, at + wanted->size()))
    ++found;
  return found;
}

Value join(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("join", arguments, {""}, 1);
  const std::string& separator = *self.if_string();
  std::string out;
  bool first = true;
  const auto items = iterate(*bound[0], budget);
  for (const Value& item : items->items) {
    const auto* text = item.if_string();
    if (!text) throw Failure(fmt::format("'join' needs strings, not '{}'", item.type_name()));
    budget.spend(1);
    budget.spend_text(out, text->size() + separator.size());
    if (!std::exchange(first, false)) out += separator;
    out += *text;
  }
  return out;
}

struct NamedMethod {
  std::string_view name;
  Function function;
};

constexpr NamedMethod kMethods[] = {
    {"capitalize", with_case<capitalize>},
    {"count", count},
    {"endswith", endswith},
    {"find", find},
    {"format", format_text},
    {"join", join},
    {"lower", with_case<lower>},
    {"lstrip", lstrip},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace},
    {"rsplit", rsplit},
    {"rstrip", rstrip},
    {"split", split},
    {"splitlines", splitlines},
    {"startswith", startswith},
    {"strip", strip},
    {"title", with_case<title>},
    {"upper", with_case<upper>},
};

}  // namespace

Function find_string_method(std::string_view name) {
  for (const NamedMethod& entry : kMethods)
    if (entry.name == name) return entry.function;
  return nullptr;
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view fresh,
                         std::int64_t count, Budget& budget) {
  budget.spend_bytes(text.size());
  std::string out;
  std::size_t begin = 0;
  for (std::size_t from = 0; count != 0; --count) {
    const std::size_t at = find_text(text, old, from);
    if (at == std::string_view::npos) break;
    budget.spend(1);
    budget.spend_text(out, fresh.size());
    out.append(text, begin, at - begin);
    out += fresh;
    begin = at + old.size();
    from = begin;
    // Nothing is found before each character and once at the end.
    if (!old.empty()) continue;
    if (at == text.size()) break;
    next_character(text, from);
  }
  out.append(text, begin);
  return out;
}

}  // namespace ebb::text::jinja
