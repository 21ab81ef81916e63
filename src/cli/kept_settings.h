// The settings of a run as its folder keeps them, in a form that --config takes.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace ebb::cli {

// The flags of a verb that was parsed, with the values that were given and the defaults of those
// that were not, as TOML. Paths are from the root on, so that the run goes on from any folder.
// Left out: `without`, names of flags without dashes, and what has no value.
std::string settings_text(const CLI::App& verb, const std::vector<std::string>& without);

}  // namespace ebb::cli
