// The JSON library's types by name only, for headers that pass them on: base/json.h costs every
// file that includes it seconds of compilation.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ebb {

// Keys keep their order, so that files read as they were written.
using Json = nlohmann::ordered_json;

}  // namespace ebb
