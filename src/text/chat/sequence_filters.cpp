#include <fmt/format.h>

#include <algorithm>

#include "text/chat/budget.h"
#include "text/chat/filters.h"
#include "text/chat/operators.h"
#include "text/chat/predicates.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

Value without_case(const Value& value, Budget& budget) {
  const auto* text = value.if_string();
  if (!text) return value;
  budget.spend(1 + text->size() / 8);
  return lower(*text);
}

Value length(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("length", arguments, {});
  return length_of(self, budget);
}

Value list(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("list", arguments, {});
  const auto items = iterate(self, budget);
  if (!items->is_tuple) return items;
  budget.spend_list(items->items.size());
  return Value::list(items->items);
}

Value first(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("first", arguments, {});
  if (auto* iterable = self.if_object<Iterable>()) {
    if (auto item = iterable->take_one()) return *std::move(item);
  } else if (const auto items = iterate(self, budget); !items->items.empty()) {
    return items->items.front();
  }
  return Value::undefined("no first item, the sequence was empty");
}

Value last(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("last", arguments, {});
  if (const auto* iterable = self.if_object<Iterable>(); iterable && !iterable->has_length())
    throw Failure("'last' needs a sequence; make a list of it with '|list'");
  const auto items = iterate(self, budget);
  if (items->items.empty()) return Value::undefined("no last item, the sequence was empty");
  return items->items.back();
}

Value reverse(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("reverse", arguments, {});
  if (self.if_string()) return slice(self, {{}, {}, -1}, budget);
  const auto items = iterate(self, budget);
  budget.spend_list(items->items.size());
  Items reversed(items->items.rbegin(), items->items.rend());
  // A generator has no end to begin from: Jinja makes a list of it first.
  const auto* iterable = self.if_object<Iterable>();
  if (iterable && !iterable->has_length()) return Value::list(std::move(reversed));
  return generator(std::move(reversed));
}

Value items(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("items", arguments, {});
  Items pairs;
  if (const auto* dict = self.if_dict()) {
    budget.spend_list(dict->entries.size());
    for (const auto& [key, value] : dict->entries) pairs.push_back(Value::tuple({key, value}));
  } else if (!self.is_undefined()) {
    throw Failure("'items' needs a mapping");
  }
  return generator(std::move(pairs));
}

// Sorts by keys made beforehand, equal ones in their old order.
Items sorted(const Items& items, const Items& keys, bool backwards, Budget& budget) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    budget.spend(1);
    return backwards ? is_less(keys[b], keys[a], budget) : is_less(keys[a], keys[b], budget);
  });
  Items out;
  out.reserve(items.size());
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

Value dictsort(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const auto* dict = self.if_dict();
  self.require_defined();
  if (!dict) throw Failure(fmt::format("'dictsort' needs a mapping, not '{}'", self.type_name()));
  const std::string by = bound.text(1) ? *bound.text(1) : "key";
  if (by != "key" && by != "value") throw Failure("'dictsort' sorts by 'key' or 'value'");
  budget.spend_list(dict->entries.size());
  Items pairs, keys;
  for (const auto& [key, value] : dict->entries) {
    pairs.push_back(Value::tuple({key, value}));
    const Value& sort_by = by == "key" ? key : value;
    keys.push_back(bound.truth(0) ? sort_by : without_case(sort_by, budget));
  }
  return Value::list(sorted(pairs, keys, bound.whole(2, 0) != 0, budget));
}

// One key an item: a list, of the attributes that commas separate.
Items sort_keys(const Items& items, const Value* attributes, bool keep_case, Budget& budget) {
  Items paths;
  if (attributes && attributes->if_string()) {
    std::string_view rest = *attributes->if_string();
    for (std::size_t comma = 0; comma != std::string_view::npos; rest.remove_prefix(comma + 1)) {
      comma = rest.find(',');
      paths.emplace_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
    }
  } else if (attributes) {
    paths.push_back(*attributes);
  }
  Items keys;
  for (const Value& item : items) {
    Items parts;
    budget.spend(1 + paths.size());
    for (const Value& path : paths) parts.push_back(follow(item, path, budget));
    if (paths.empty()) parts.push_back(item);
    if (!keep_case)
      for (Value& part : parts) part = without_case(part, budget);
    keys.push_back(Value::list(std::move(parts)));
  }
  return keys;
}

Value sort(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const auto items = iterate(self, budget);
  budget.spend_list(items->items.size());
  const Items keys = sort_keys(items->items, bound.unless_none(2), bound.truth(1), budget);
  return Value::list(sorted(items->items, keys, bound.whole(0, 0) != 0, budget));
}

Value unique(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const Value* path = bound.unless_none(1);
  Entries seen;
  Items kept;
  const auto items = iterate(self, budget);
  for (const Value& item : items->items) {
    Value key = path ? follow(item, *path, budget) : item;
    if (!bound.truth(0)) key = without_case(key, budget);
    const std::size_t before = seen.size();
    insert(seen, std::move(key), {}, budget);
    if (seen.size() > before) kept.push_back(item);
  }
  return generator(std::move(kept));
}

Value map(const Value& self, const Arguments& arguments, Budget& budget) {
  Items mapped;
  if (!self.truth()) return generator(std::move(mapped));
  const auto items = iterate(self, budget);
  budget.spend_list(items->items.size());
  if (arguments.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    if (!bound[0]) throw Failure("'map' needs a filter or an attribute");
    for (const Value& item : items->items)
      mapped.push_back(follow(item, *bound[0], budget, bound.unless_none(1)));
    return generator(std::move(mapped));
  }
  const auto* name = arguments.positional[0].if_string();
  const Function filter = name ? find_filter(*name) : nullptr;
  if (!filter)
    throw Failure(fmt::format("filter '{}' is not supported", name ? *name : "that is no name"));
  // 'map' itself may be the filter, and then each level takes one argument off.
  if (arguments.positional.size() > kMostArguments)
    throw Failure(fmt::format("'map' takes at most {} arguments", kMostArguments));
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : items->items) mapped.push_back(filter(item, rest, budget));
  return generator(std::move(mapped));
}

// The four of them: by the item or by an attribute of it, those that pass the test or the others.
template <bool by_attribute, bool keep>
Value select(const Value& self, const Arguments& arguments, Budget& budget) {
  Items kept;
  if (!self.truth()) return generator(std::move(kept));
  Arguments rest = arguments;
  const auto take = [&]() -> std::optional<Value> {
    if (rest.positional.empty()) return std::nullopt;
    Value front = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return front;
  };
  const auto path = by_attribute ? take() : std::nullopt;
  if (by_attribute && !path) throw Failure("the name of an attribute is missing");
  Function test = nullptr;
  if (const auto name = take()) {
    test = name->if_string() ? find_test(*name->if_string()) : nullptr;
    if (!test)
      throw Failure(fmt::format("test '{}' is not supported",
                                name->if_string() ? *name->if_string() : "that is no name"));
  }
  const auto items = iterate(self, budget);
  budget.spend_list(items->items.size());
  for (const Value& item : items->items) {
    const Value subject = path ? follow(item, *path, budget) : item;
    if ((test ? test(subject, rest, budget) : subject).truth() == keep) kept.push_back(item);
  }
  return generator(std::move(kept));
}

// The item that no other is before, or behind; of equal ones the first.
template <bool least>
Value extreme(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound(least ? "min" : "max", arguments, {"case_sensitive", "attribute"});
  const auto items = iterate(self, budget);
  if (items->items.empty()) {
    return Value::undefined("no aggregated item, the sequence was empty");
  }
  const Value* path = bound.unless_none(1);
  const auto key_of = [&](const Value& item) {
    const Value key = path ? follow(item, *path, budget) : item;
    return bound.truth(0) ? key : without_case(key, budget);
  };
  const Value* best = &items->items.front();
  Value best_key = key_of(*best);
  for (std::size_t i = 1; i < items->items.size(); ++i) {
    budget.spend(1);
    Value key = key_of(items->items[i]);
    if (!(least ? is_less(key, best_key, budget) : is_less(best_key, key, budget))) continue;
    best = &items->items[i];
    best_key = std::move(key);
  }
  return *best;
}

Value sum(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const Value* path = bound.unless_none(0);
  Value total = bound[1] ? *bound[1] : Value(0);
  // Python's own sum() refuses to begin with a string.
  if (total.if_string()) throw Failure("'sum' does not add strings; use '|join'");
  for (const Value& item : iterate(self, budget)->items) {
    budget.spend(1);
    total = compute(Arithmetic::add, total, path ? follow(item, *path, budget) : item, budget);
  }
  return total;
}

Value fall_back(const Value& self, const Arguments& arguments, Budget&) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  if (self.is_undefined() || (bound.truth(1) && !self.truth()))
    return bound[0] ? *bound[0] : Value(std::string());
  return self;
}

}  // namespace

Function find_sequence_filter(std::string_view name) {
  if (name == "count" || name == "length") return length;
  if (name == "d" || name == "default") return fall_back;
  if (name == "dictsort") return dictsort;
  if (name == "first") return first;
  if (name == "items") return items;
  if (name == "last") return last;
  if (name == "list") return list;
  if (name == "map") return map;
  if (name == "max") return extreme<false>;
  if (name == "min") return extreme<true>;
  if (name == "reject") return select<false, false>;
  if (name == "rejectattr") return select<true, false>;
  if (name == "reverse") return reverse;
  if (name == "select") return select<false, true>;
  if (name == "selectattr") return select<true, true>;
  if (name == "sort") return sort;
  if (name == "sum") return sum;
  if (name == "unique") return unique;
  return nullptr;
}

Function find_filter(std::string_view name) {
  if (const Function filter = find_sequence_filter(name)) return filter;
  if (const Function filter = find_text_filter(name)) return filter;
  return find_number_filter(name);
}

}  // namespace ebb::text::jinja
