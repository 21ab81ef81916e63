// What Python's operators do with values, and how Jinja finds attributes and items. All throw
// Failure where Python or Jinja would raise.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/chat/value.h"

namespace ebb::text::jinja {

enum class Arithmetic { add, subtract, multiply, divide, floor_divide, modulo };
enum class Comparison { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

Value compute(Arithmetic operation, const Value& left, const Value& right, Budget& budget);
Value negate(const Value& value);
bool compare(Comparison comparison, const Value& left, const Value& right, Budget& budget);

bool equals(const Value& left, const Value& right, Budget& budget);
bool is_less(const Value& left, const Value& right, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

// Keys of dicts and items of sets must not be lists or dicts.
void require_hashable(const Value& value, Budget& budget);

// What a loop over the value sees: a list's own items, a dict's keys, a string's characters.
std::shared_ptr<const List> iterate(const Value& value, Budget& budget);
std::size_t length_of(const Value& value, Budget& budget);

// value.name: an attribute or method first, else an item. Undefined where there is neither.
Value attribute(const Value& value, std::string_view name, Budget& budget);
// value[index]: an item first.
Value subscript(const Value& value, const Value& index, Budget& budget);
// What filters reach by a name with dots, "function.name", or by an index: subscripts one after
// another. `otherwise` stands for what is undefined, where it is given.
Value follow(const Value& value, const Value& path, Budget& budget,
             const Value* otherwise = nullptr);
// value[start:stop:step], with none for what is left out.
struct SliceBounds {
  Value start, stop, step;
};
Value slice(const Value& value, const SliceBounds& bounds, Budget& budget);

// Where `wanted` begins in `text` at or after `from`; npos if nowhere. In linear time, which a
// plain search does not promise.
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from = 0);

}  // namespace ebb::text::jinja
