// Notes for people on data that a run left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/data/batch.h"

namespace ebb::engine {

// When something is left out for the first time: what, why, and what to do. `before` is what was
// left out in all steps before this one.
std::vector<std::string> first_left_out(const text::LeftOut& before, const text::LeftOut& now,
                                        std::int64_t step, std::int64_t sequence);

// At the end of a run: how much was left out of it.
std::vector<std::string> all_left_out(const text::LeftOut& all);

}  // namespace ebb::engine
