// Where profiles of machines come from: those that ship, and files.
#pragma once

#include <string>

#include "io/file_system.h"
#include "plan/profile.h"

namespace ebb::engine {

// `machine` is the path of a profile or the name of a machine that Ebb knows. Throws ConfigError
// that lists those, FormatError for a file that is no profile.
plan::Profile find_machine(io::FileSystem& files, const std::string& machine);

}  // namespace ebb::engine
