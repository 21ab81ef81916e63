#include <fmt/format.h>

#include "base/to_size.h"
#include "text/chat/budget.h"
#include "text/chat/filters.h"
#include "text/chat/methods.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

// What is marked 'safe' stays so in filters that change the text itself.
Value marked_as(const Value& self, std::string text) {
  return self.is_safe() ? Value::safe(std::move(text)) : Value(std::move(text));
}

template <std::string (*change)(std::string_view), bool keeps_mark = true>
Value with_case(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("a filter that changes case", arguments, {});
  const std::string text = to_text(self, budget);
  budget.spend(text.size() / 8);
  return keeps_mark ? marked_as(self, change(text)) : Value(change(text));
}

// Words begin behind spaces, hyphens and opening brackets: not as `.title()` has it.
std::string title_of_words(std::string_view text) {
  std::string out;
  std::size_t word = 0;  // where it began
  bool inside = false;
  const auto finish = [&](std::size_t end) {
    if (!inside) return;
    const std::string_view whole = text.substr(word, end - word);
    std::size_t first = 0;
    next_character(whole, first);
    out += upper(whole.substr(0, first));
    out += lower(whole.substr(first));
    inside = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c)) {
      finish(begin);
      out += text.substr(begin, at - begin);
    } else if (!inside) {
      inside = true;
      word = begin;
    }
  }
  finish(text.size());
  return out;
}

Value trim(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("trim", arguments, {"chars"});
  const std::string text = to_text(self, budget);
  const std::string* characters = bound.text(0);
  if (characters) budget.spend(text.size() / 64 * (1 + characters->size() / 4));
  return marked_as(self, std::string(strip_left(strip_right(text, characters), characters)));
}

Value replace(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  return replace_text(to_text(self, budget), to_text(*bound[0], budget), to_text(*bound[1], budget),
                      bound.unless_none(2) ? bound.whole(2, -1) : -1, budget);
}

Value string(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("string", arguments, {});
  return marked_as(self, to_text(self, budget));
}

Value safe(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("safe", arguments, {});
  return Value::safe(to_text(self, budget));
}

Value indent(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  self.require_defined();
  if (!self.if_string())
    throw Failure(fmt::format("'indent' needs a string, not '{}'", self.type_name()));
  std::string indention;
  if (bound[0] && bound[0]->if_string()) {
    indention = *bound[0]->if_string();
  } else {
    const std::int64_t width = std::max<std::int64_t>(bound.whole(0, 4), 0);
    budget.spend_text(to_size(width));
    indention.assign(to_size(width), ' ');
  }
  // With a line end behind it, so that an empty text has one line and a last empty one counts.
  const std::string text = *self.if_string() + "\n";
  budget.spend_bytes(text.size());
  std::string out = bound.truth(1) ? indention : "";
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    budget.spend(1);
    budget.spend_text(out, indention.size() + line.size());
    if (!first) out += '\n';
    if (!first && (bound.truth(2) || !line.empty())) out += indention;
    out += line;
    first = false;
  }
  return marked_as(self, std::move(out));
}

Value tojson(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.escape_non_ascii = bound.truth(0);
  style.sort_keys = bound.truth(3);
  std::string indention;
  if (const Value* indent = bound.unless_none(1)) {
    if (const auto* text = indent->if_string()) {
      indention = *text;
    } else {
      const std::int64_t width = std::max<std::int64_t>(bound.whole(1, 0), 0);
      budget.spend_text(to_size(width));
      indention.assign(to_size(width), ' ');
    }
    style.indent = &indention;
    style.item_separator = ",";
  }
  std::shared_ptr<const List> pair;
  if (const Value* separators = bound.unless_none(2)) {
    pair = iterate(*separators, budget);
    if (pair->items.size() != 2 || !pair->items[0].if_string() || !pair->items[1].if_string())
      throw Failure("'tojson' needs two strings as separators");
    style.item_separator = *pair->items[0].if_string();
    style.key_separator = *pair->items[1].if_string();
  }
  return to_json(self, style, budget);
}

Value join(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const std::string separator = bound[0] ? to_text(*bound[0], budget) : "";
  const Value* path = bound.unless_none(1);
  std::string out;
  bool first = true;
  const auto items = iterate(self, budget);
  for (const Value& item : items->items) {
    budget.spend(1);
    if (!std::exchange(first, false)) {
      budget.spend_text(separator.size());
      out += separator;
    }
    append_text(path ? follow(item, *path, budget) : item, out, budget);
  }
  return out;
}

}  // namespace

Value refuse(const Value&, const Arguments& arguments, Budget&) {
  throw Failure(*arguments.positional.at(0).if_string());
}

Function find_text_filter(std::string_view name) {
  if (name == "capitalize") return with_case<capitalize>;
  if (name == "indent") return indent;
  if (name == "join") return join;
  if (name == "lower") return with_case<lower>;
  if (name == "replace") return replace;
  if (name == "safe") return safe;
  if (name == "string") return string;
  if (name == "title") return with_case<title_of_words, false>;
  if (name == "tojson") return tojson;
  if (name == "trim") return trim;
  if (name == "upper") return with_case<upper>;
  return nullptr;
}

}  // namespace ebb::text::jinja
