#include "base/json.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb {

Json parse_json(std::string_view text, std::string_view where) {
  // Trees are compared, printed and destroyed by code that recurses.
  constexpr int deepest = 64;
  bool too_deep = false;
  const auto bounded = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > deepest) too_deep = true;
    return !too_deep;
  };
  Json json = Json::parse(text, bounded, false);
  if (too_deep)
    throw FormatError(fmt::format("{}: JSON nested deeper than {} levels", where, deepest));
  if (json.is_discarded()) throw FormatError(fmt::format("{}: this is not JSON", where));
  return json;
}

}  // namespace ebb
