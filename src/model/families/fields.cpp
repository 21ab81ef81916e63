#include "model/families/fields.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "model/families/family.h"

namespace ebb::model {

Fields::Fields(const Json& json, std::string_view where) : json_(json), where_(where) {
  if (!json.is_object()) {
    throw FormatError(
        fmt::format("{}: expected a JSON object with the model's configuration", where));
  }
}

const Json& Fields::at(const char* key) const {
  if (!has(key)) throw FormatError(fmt::format("{}: '{}' is missing", where_, key));
  return json_.at(key);
}

void Fields::wrong(const char* key, std::string_view expected) const {
  throw FormatError(fmt::format("{}: '{}' should be {}, found {}", where_, key, expected,
                                in_quotes(json_.at(key).dump())));
}

std::int64_t Fields::integer(const char* key) const {
  if (!at(key).is_number_integer()) wrong(key, "a whole number");
  return at(key).get<std::int64_t>();
}
std::int64_t Fields::integer(const char* key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}
double Fields::number(const char* key) const {
  if (!at(key).is_number()) wrong(key, "a number");
  return at(key).get<double>();
}
double Fields::number(const char* key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}
bool Fields::boolean(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_boolean()) wrong(key, "true or false");
  return at(key).get<bool>();
}
std::string Fields::string(const char* key, std::string otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_string()) wrong(key, "a string");
  return at(key).get<std::string>();
}
const Json* Fields::object(const char* key) const {
  if (!has(key)) return nullptr;
  if (!at(key).is_object()) wrong(key, "an object");
  return &at(key);
}
const Json* Fields::array(const char* key) const {
  if (!has(key)) return nullptr;
  if (!at(key).is_array()) wrong(key, "a list");
  return &at(key);
}

void Fields::refuse(std::string_view what) const {
  throw ConfigError(
      fmt::format("{}: {}. Ebb computes models of the types {}.", where_, what, family_names()));
}
void Fields::refuse_if(const char* key) const {
  if (boolean(key, false)) refuse(fmt::format("{} is not supported", key));
}

}  // namespace ebb::model
