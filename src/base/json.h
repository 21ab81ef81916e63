// The JSON library, under the project's name.
#pragma once

#include <nlohmann/json.hpp>

namespace ebb {

// Keys keep their order, so that files read as they were written.
using Json = nlohmann::ordered_json;

}  // namespace ebb
