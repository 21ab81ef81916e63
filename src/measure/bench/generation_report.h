// What `ebb bench generate` found, for people (Markdown) and for programs.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "measure/bench/generation_row.h"

namespace ebb::measure {

Json to_json(const GenerationRow& row);
// The rates that ceilings are made of: of each number of threads and type among the rows, once.
Json rates_json(const std::vector<GenerationRow>& rows);

// A table in Markdown, below it what did not fit, and the rates.
std::string to_text(const std::vector<GenerationRow>& rows);
// One of them, in a line of its own.
std::string to_line(const GenerationRow& row);

}  // namespace ebb::measure
