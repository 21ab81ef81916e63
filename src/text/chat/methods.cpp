#include "text/chat/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "text/chat/budget.h"
#include "text/chat/operators.h"
#include "text/chat/string_methods.h"

namespace ebb::text::jinja {
namespace {

using Names = std::span<const std::string_view>;

// What Python 3.11 has besides the supported ones, so that a key of the same name is found as
// Python would find it.
constexpr std::string_view kOtherOfStrings[] = {
    "casefold",    "center",  "encode",    "expandtabs", "format_map",   "index",     "isalnum",
    "isalpha",     "isascii", "isdecimal", "isdigit",    "isidentifier", "islower",   "isnumeric",
    "isprintable", "isspace", "istitle",   "isupper",    "ljust",        "maketrans", "partition",
    "rfind",       "rindex",  "rjust",     "rpartition", "swapcase",     "translate", "zfill"};
constexpr std::string_view kOtherOfLists[] = {"copy", "count", "index"};
constexpr std::string_view kOtherOfTuples[] = {"count", "index"};
constexpr std::string_view kOtherOfDicts[] = {"copy", "fromkeys"};
constexpr std::string_view kForbiddenOfLists[] = {"append", "clear", "pop",    "reverse",
                                                  "insert", "sort",  "extend", "remove"};
constexpr std::string_view kForbiddenOfDicts[] = {"clear", "pop", "popitem", "setdefault",
                                                  "update"};

bool is_among(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value get(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("get", arguments, {"", ""}, 1);
  require_hashable(*bound[0], budget);
  if (const Value* found = self.if_dict()->find(*bound[0], budget)) return *found;
  return bound[1] ? *bound[1] : Value();
}

template <Iterable::Kind kind>
Value view(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("a dict's view", arguments, {});
  const Entries& entries = self.if_dict()->entries;
  budget.spend_list(entries.size());
  Items items;
  items.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if constexpr (kind == Iterable::Kind::keys)
      items.push_back(key);
    else if constexpr (kind == Iterable::Kind::values)
      items.push_back(value);
    else
      items.push_back(Value::tuple({key, value}));
  }
  return std::make_shared<Iterable>(kind, std::move(items));
}

Function find_dict_method(std::string_view name) {
  if (name == "get") return get;
  if (name == "items") return view<Iterable::Kind::items>;
  if (name == "keys") return view<Iterable::Kind::keys>;
  if (name == "values") return view<Iterable::Kind::values>;
  return nullptr;
}

}  // namespace

Method find_method(const Value& value, std::string_view name) {
  using Standing = Method::Standing;
  // Every object of Python's has names like __class__; the sandbox hides them.
  if (name.starts_with("__") && name.ends_with("__")) return {Standing::forbidden};
  const auto list = value.if_list();
  Function function = nullptr;
  Names other = {}, forbidden = {};
  if (value.if_string()) {
    function = find_string_method(name);
    other = kOtherOfStrings;
  } else if (value.if_dict()) {
    function = find_dict_method(name);
    other = kOtherOfDicts;
    forbidden = kForbiddenOfDicts;
  } else if (list && list->is_tuple) {
    other = kOtherOfTuples;
  } else if (list) {
    other = kOtherOfLists;
    forbidden = kForbiddenOfLists;
  }
  if (function) return {Standing::supported, function};
  if (is_among(name, forbidden)) return {Standing::forbidden};
  return {is_among(name, other) ? Standing::unsupported : Standing::none};
}

}  // namespace ebb::text::jinja
