// JSON with very many keys.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace ebb {

// Keys are sorted and found in time that grows as the logarithm of their count, where Json walks
// over them: a vocabulary has hundreds of thousands.
using SortedJson = nlohmann::json;

// Parses as parse_json does, with the same bounds.
SortedJson parse_sorted_json(std::string_view text, std::string_view where);

}  // namespace ebb
