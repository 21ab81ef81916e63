// What a run's plan.json and step.json say, as far as a page can show it. Both are read as hostile:
// what is taken over is of the right type, in bounds and refers to what is there; what is not is
// left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json_fwd.h"

namespace ebb::report {

// A whole number that a page's script can count with: from 0 to 2^53.
std::optional<std::int64_t> count_of(const Json& json);
// A number that is finite.
std::optional<double> number_of(const Json& json);
// The text at a key, in at most so many bytes; empty where there is none.
std::string text_at(const Json& json, const char* key, std::size_t most_bytes);

// The picture of a step (plan/step_picture.h); null where it is none.
Json checked_step(const Json& step);

}  // namespace ebb::report
