// The standard output: what cannot be written there is an error, for every verb.
#pragma once

#include <string>
#include <string_view>

namespace ebb::cli {

// Writes and flushes, so that a reader in a pipe sees it now. Throws IoError where the output is
// closed, full or broken.
void print_out(std::string_view text);

// "  3m 05s left", to be put behind a line of progress; nothing at the end.
std::string time_left(double seconds);

// Flushes what libraries wrote to stdout, too. At the end of every command: without it a full disk
// would go unnoticed. Throws IoError.
void finish_output();

}  // namespace ebb::cli
