// The JSON library, under the project's name.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"

namespace ebb {

// Text from outside: bounded in depth, each key of an object once, in time and memory that grow
// with the text. Throws FormatError that names `where`.
Json parse_json(std::string_view text, std::string_view where);

}  // namespace ebb
