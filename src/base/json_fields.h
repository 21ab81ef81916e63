// A struct's fields, filled from a JSON object by their names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"

namespace ebb {

namespace json_fields {

template <class Field>
struct ValueOf {
  using Type = Field;
};
template <class Value>
struct ValueOf<std::optional<Value>> {
  using Type = Value;
};

// JSON's own conversions would take a float for a whole number and lose its fraction.
template <class Value>
bool fits(const Json& json) {
  if constexpr (std::is_same_v<Value, bool>) return json.is_boolean();
  if constexpr (std::is_same_v<Value, std::string>) return json.is_string();
  if constexpr (std::is_same_v<Value, std::uint64_t>) return json.is_number_unsigned();
  return std::is_floating_point_v<Value> ? json.is_number() : json.is_number_integer();
}

}  // namespace json_fields

// Refers to the fields that were added, which must outlive it.
class JsonFields {
 public:
  using Take = std::function<void(const Json& value)>;

  // For errors: `object` is what the whole is ("the optimizer's settings"), `field` one of it
  // ("setting").
  JsonFields(std::string object, std::string field)
      : object_(std::move(object)), field_(std::move(field)) {}

  void add(const std::string& name, Take take) { takes_[name] = std::move(take); }

  // A number, a text or a truth value, optional or not.
  template <class Field>
  requires(!std::is_invocable_v<Field, const Json&>) void add(const std::string& name, Field& to) {
    add(name, Take([this, name, &to](const Json& value) {
          to = read<typename json_fields::ValueOf<Field>::Type>(name, value);
        }));
  }

  // What is absent keeps its value. Throws ConfigError for what is no object, of the wrong kind or
  // unknown.
  void fill(const Json& json) const;
  // The same where null counts as absent.
  void fill_given(const Json& json) const;

  // Throws ConfigError where the value is of another kind, or does not fit.
  template <class Value>
  Value read(const std::string& name, const Json& value) const {
    if (!json_fields::fits<Value>(value) || Json(value.get<Value>()) != value) {
      refuse(name, value);
    }
    return value.get<Value>();
  }

  [[noreturn]] void refuse(const std::string& name, const Json& value) const;

 private:
  void fill(const Json& json, bool null_is_absent) const;

  std::string object_;
  std::string field_;
  std::map<std::string, Take> takes_;
};

}  // namespace ebb
