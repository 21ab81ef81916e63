// The standard output: what cannot be written there is an error, for every verb.
#pragma once

#include <string>
#include <string_view>

namespace ebb::cli {

// Throws IoError where the output is closed, full or broken.
void print_out(std::string_view text);

// "  3m 05s left", to be put behind a line of progress; nothing at the end.
std::string time_left(double seconds);

// What libraries wrote, too. At the end of every command.
void finish_output();

}  // namespace ebb::cli
