#include "text/data/position.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "ebb/error.h"

namespace ebb::text {

Json to_json(const DataPosition& position) {
  return {{"epoch", position.epoch}, {"item", position.item}, {"token", position.token}};
}

DataPosition parse_position(const Json& json, std::string_view where) {
  const auto number = [&](const char* key) {
    const auto value = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || value == json.end() || !value->is_number_integer() ||
        value->get<std::int64_t>() < 0) {
      throw FormatError(fmt::format(
          "{}: the data position should have a whole number \"{}\", 0 or more; found {}", where,
          key, in_quotes(json.dump())));
    }
    return value->get<std::int64_t>();
  };
  return {.epoch = number("epoch"), .item = number("item"), .token = number("token")};
}

}  // namespace ebb::text
