// Words and keys that the tables of all benches have in common.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "measure/bench/peak.h"

namespace ebb::measure {

// "qwen2.5-3b" of "preset:qwen2.5-3b", the last part of a path.
std::string short_model(const std::string& model);

// "does not fit: " and the line that says what is missing, or the first; "failed: " where the
// device failed.
std::string refusal_text(const std::string& refusal, bool failed);

// "12.3%", or "-" where it is not known.
std::string percent(const std::optional<double>& share);

// What is not known is null and not left out, so that every row has the same keys.
template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json to_json(const Peak& peak);

}  // namespace ebb::measure
