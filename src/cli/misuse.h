// What was wrong with a command line, for the person who typed it.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace ebb::cli {

// Names flags, verbs and repetitions that CLI11 refused, at the depth of verbs that was reached,
// with what may have been meant. For CLI::App::failure_message.
std::string describe_misuse(const CLI::App* app, const CLI::Error& error);

// The long names of an app's flags, without dashes; hidden ones are left out.
std::vector<std::string> flag_names(const CLI::App& app);

}  // namespace ebb::cli
