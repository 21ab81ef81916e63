#include "text/chat/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/to_size.h"

namespace ebb::text::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, std::size_t required)
    : function_(function) {
  if (arguments.positional.size() > parameters.size())
    throw Failure(fmt::format("'{}' takes at most {} arguments, not {}", function,
                              parameters.size(), arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end())
      throw Failure(fmt::format("'{}' takes no argument '{}'", function, name));
    const Value*& slot = values_[to_size(found - parameters.begin())];
    if (slot) throw Failure(fmt::format("'{}' is given its argument '{}' twice", function, name));
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i])
      throw Failure(fmt::format("'{}' needs at least {} arguments", function, required));
}

const std::string* Bound::text(std::size_t index) const {
  const Value* value = unless_none(index);
  if (!value) return nullptr;
  value->require_defined();
  if (!value->if_string())
    throw Failure(fmt::format("'{}' needs a string, not '{}'", function_, value->type_name()));
  return value->if_string();
}

std::int64_t Bound::whole(std::size_t index, std::int64_t fallback) const {
  const Value* value = values_[index];
  if (!value) return fallback;
  value->require_defined();
  const auto whole = value->whole();
  if (!whole)
    throw Failure(fmt::format("'{}' needs an integer, not '{}'", function_, value->type_name()));
  return *whole;
}

}  // namespace ebb::text::jinja
