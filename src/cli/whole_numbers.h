// Whole numbers on the command line are what they look like, or an error.
#pragma once

#include <CLI/CLI.hpp>

namespace ebb::cli {

// Lets every flag of the app and of its verbs that takes whole numbers accept decimal digits alone,
// within the range of its type: CLI11 reads 010 as 8, and what is too large as the largest there
// is. To be called when all flags are there.
void check_whole_numbers(CLI::App& app);

}  // namespace ebb::cli
