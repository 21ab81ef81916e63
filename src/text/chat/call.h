// What a call passes, and the functions that filters, tests and methods are: each takes the value
// before it and the arguments in its brackets.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/value.h"

namespace ebb::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Function = Value (*)(const Value& self, const Arguments& arguments, Budget& budget);

// Arguments by the order of a function's parameters; null where none was given.
class Bound {
 public:
  // A parameter with the name "" takes no name, as those of most methods. Throws Failure, which
  // names `function`, for too many, too few or unknown arguments.
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, std::size_t required = 0);

  const Value* operator[](std::size_t index) const { return values_[index]; }
  bool truth(std::size_t index) const { return values_[index] && values_[index]->truth(); }
  // Null also where none was given by that word.
  const Value* unless_none(std::size_t index) const {
    return values_[index] && !values_[index]->is_none() ? values_[index] : nullptr;
  }
  // Null as above. Throws Failure for what is no string.
  const std::string* text(std::size_t index) const;
  std::int64_t whole(std::size_t index, std::int64_t fallback) const;

 private:
  std::string_view function_;
  std::array<const Value*, 4> values_{};
};

}  // namespace ebb::text::jinja
