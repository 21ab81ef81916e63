#include "base/json_fields.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb {

void JsonFields::refuse(const std::string& name, const Json& value) const {
  throw ConfigError(
      fmt::format("{} {}: {} is of the wrong kind or size", field_, name, in_quotes(value.dump())));
}

void JsonFields::fill(const Json& json, bool null_is_absent) const {
  if (!json.is_object()) throw ConfigError(fmt::format("{}: expected a JSON object", object_));
  for (const auto& [name, value] : json.items()) {
    const auto take = takes_.find(name);
    if (take == takes_.end()) {
      std::string names;
      for (const auto& [known, unused] : takes_) names += " " + known;
      throw ConfigError(
          fmt::format("{} {}: there is none, expected one of{}", field_, in_quotes(name), names));
    }
    if (!null_is_absent || !value.is_null()) take->second(value);
  }
}

void JsonFields::fill(const Json& json) const { fill(json, false); }

void JsonFields::fill_given(const Json& json) const { fill(json, true); }

}  // namespace ebb
