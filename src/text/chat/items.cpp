#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "text/chat/budget.h"
#include "text/chat/methods.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

constexpr std::size_t kWorkOfACharacter = 8;  // a string of its own

// The name may be as long as any text, and templates ask for what is missing in loops.
Value no_attribute(const Value& value, std::string_view name) {
  const std::string quoted = in_quotes(name);
  if (value.is_none()) return Value::undefined(fmt::format("'None' has no attribute {}", quoted));
  return Value::undefined(
      fmt::format("'{} object' has no attribute {}", value.type_name(), quoted));
}

// A method or an object's attribute; nothing where Python has none of that name.
std::optional<Value> own_attribute(const Value& value, std::string_view name) {
  if (Object* object = value.if_object())
    if (auto found = object->attribute(name)) return found;
  switch (const Method method = find_method(value, name); method.standing) {
    case Method::Standing::none: return std::nullopt;
    case Method::Standing::supported:
      return Value(std::make_shared<BoundMethod>(value, method.function));
    case Method::Standing::forbidden:
      return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name,
                                          value.type_name()));
    case Method::Standing::unsupported: break;
  }
  throw Failure(fmt::format("method '{}' of '{}' is not supported", name, value.type_name()));
}

// The item at an index that may count from the end; nothing where Python would raise.
std::optional<Value> item_at(const Value& value, const Value& index, Budget& budget) {
  if (const auto* dict = value.if_dict()) {
    const auto list = index.if_list();
    if (index.if_dict() || (list && !list->is_tuple)) return std::nullopt;
    const Value* found = dict->find(index, budget);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto at = index.whole();
  if (!at) return std::nullopt;
  if (const auto* text = value.if_string()) {
    budget.spend_bytes(text->size());
    const auto count = static_cast<std::int64_t>(count_characters(*text));
    const std::int64_t place = *at < 0 ? *at + count : *at;
    if (place < 0 || place >= count) return std::nullopt;
    const std::size_t begin = byte_of_character(*text, to_size(place));
    std::size_t end = begin;
    next_character(*text, end);
    return Value(text->substr(begin, end - begin));
  }
  auto list = value.if_list();
  if (const auto* iterable = value.if_object<Iterable>(); iterable && iterable->has_index())
    list = iterable->items();
  if (!list) return std::nullopt;
  const auto count = static_cast<std::int64_t>(list->items.size());
  const std::int64_t place = *at < 0 ? *at + count : *at;
  if (place < 0 || place >= count) return std::nullopt;
  return list->items[to_size(place)];
}

std::optional<std::int64_t> bound_of_slice(const Value& value) {
  if (value.is_none()) return std::nullopt;
  const auto whole = value.whole();
  if (!whole) throw Failure("slice indices must be integers or none");
  return whole;
}

// The indices that a slice of `count` items visits, in order.
struct Walk {
  std::int64_t start, step;
  std::size_t count;
};

Walk walk_of(const SliceBounds& bounds, std::int64_t count) {
  // Nothing is longer than a text may be, so larger steps and bounds change nothing.
  static constexpr std::int64_t far = std::int64_t{1} << 40;
  const auto near = [](std::int64_t value) { return std::clamp(value, -far, far); };
  const std::int64_t step = near(bound_of_slice(bounds.step).value_or(1));
  if (step == 0) throw Failure("slice step cannot be zero");
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? count - 1 : count;
  const auto place = [&](const Value& bound, std::int64_t otherwise) {
    const auto given = bound_of_slice(bound);
    if (!given) return otherwise;
    return std::clamp(near(*given) + (*given < 0 ? count : 0), lowest, highest);
  };
  const std::int64_t start = place(bounds.start, step < 0 ? highest : lowest);
  const std::int64_t stop = place(bounds.stop, step < 0 ? lowest : highest);
  const std::int64_t span = step < 0 ? start - stop : stop - start;
  const std::int64_t width = step < 0 ? -step : step;
  return {start, step, span <= 0 ? 0 : to_size((span + width - 1) / width)};
}

std::string slice_text(const std::string& text, const SliceBounds& bounds, Budget& budget) {
  budget.spend_bytes(text.size());
  const std::size_t characters = count_characters(text);
  const Walk walk = walk_of(bounds, static_cast<std::int64_t>(characters));
  const auto first = to_size(walk.start);
  if (walk.count == 0) return {};
  if (walk.step == 1) {
    const std::size_t begin = byte_of_character(text, first);
    const std::string_view rest = std::string_view(text).substr(begin);
    return std::string(rest.substr(0, byte_of_character(rest, walk.count)));
  }
  budget.spend(characters);
  std::u32string decoded;
  for (std::size_t at = 0; at < text.size();) decoded += next_character(text, at);
  std::string out;
  std::int64_t place = walk.start;
  for (std::size_t i = 0; i < walk.count; ++i, place += walk.step)
    append_character(decoded[to_size(place)], out);
  return out;
}

}  // namespace

std::shared_ptr<const List> iterate(const Value& value, Budget& budget) {
  if (auto list = value.if_list()) return list;
  if (auto* iterable = value.if_object<Iterable>()) return iterable->take();
  Items items;
  if (const auto* text = value.if_string()) {
    const std::size_t count = count_characters(*text);
    budget.spend_list(count);
    budget.spend(kWorkOfACharacter * count);
    items.reserve(count);
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t begin = at;
      next_character(*text, at);
      items.emplace_back(text->substr(begin, at - begin));
    }
  } else if (const auto* dict = value.if_dict()) {
    budget.spend_list(dict->entries.size());
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (!value.is_undefined()) {
    throw Failure(fmt::format("'{}' object is not iterable", value.type_name()));
  }
  return Value::list(std::move(items)).if_list();
}

std::size_t length_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return 0;
  if (const auto* text = value.if_string()) {
    budget.spend_bytes(text->size());
    return count_characters(*text);
  }
  if (const auto list = value.if_list()) return list->items.size();
  if (const auto* dict = value.if_dict()) return dict->entries.size();
  if (const auto* iterable = value.if_object<Iterable>(); iterable && iterable->has_length())
    return iterable->items()->items.size();
  throw Failure(fmt::format("object of type '{}' has no len()", value.type_name()));
}

Value attribute(const Value& value, std::string_view name, Budget& budget) {
  value.require_defined();
  if (auto found = own_attribute(value, name)) return *std::move(found);
  if (const auto* dict = value.if_dict()) {
    budget.spend(dict->entries.size() / 16);
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_attribute(value, name);
}

Value subscript(const Value& value, const Value& index, Budget& budget) {
  value.require_defined();
  if (auto found = item_at(value, index, budget)) return *std::move(found);
  if (const auto* name = index.if_string()) {
    if (auto found = own_attribute(value, *name)) return *std::move(found);
    return no_attribute(value, *name);
  }
  const std::string object = value.is_none() ? "None" : fmt::format("{} object", value.type_name());
  // Python's words for the index itself could be long, or refuse to be printed.
  return Value::undefined(index.is_number()
                              ? fmt::format("{} has no element {}", object, repr(index, budget))
                              : fmt::format("{} has no such element", object));
}

Value follow(const Value& value, const Value& path, Budget& budget, const Value* otherwise) {
  Value item = value;
  const auto step = [&](const Value& part) {
    budget.spend(1);
    item = subscript(item, part, budget);
    if (otherwise && item.is_undefined()) item = *otherwise;
  };
  const auto* text = path.if_string();
  if (!text) {
    step(path);
    return item;
  }
  for (std::string_view rest = *text;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number =
        problem == std::errc() && end == part.data() + part.size() && part[0] != '-';
    step(is_number ? Value(number) : Value(part));
    if (dot == std::string_view::npos) return item;
    rest.remove_prefix(dot + 1);
  }
}

Value slice(const Value& value, const SliceBounds& bounds, Budget& budget) {
  value.require_defined();
  if (const auto* text = value.if_string()) return slice_text(*text, bounds, budget);
  const auto list = value.if_list();
  if (!list) throw Failure(fmt::format("'{}' object cannot be sliced", value.type_name()));
  const Walk walk = walk_of(bounds, static_cast<std::int64_t>(list->items.size()));
  budget.spend_list(walk.count);
  Items items;
  items.reserve(walk.count);
  std::int64_t place = walk.start;
  for (std::size_t i = 0; i < walk.count; ++i, place += walk.step)
    items.push_back(list->items[to_size(place)]);
  return list->is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

}  // namespace ebb::text::jinja
