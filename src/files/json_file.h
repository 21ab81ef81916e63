// Small JSON files: a model's, a machine's.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "io/file_system.h"

namespace ebb::files {

// Bounded in size and depth. Throws FormatError or IoError that names the file.
Json read_json(io::FileSystem& files, const std::filesystem::path& path);

}  // namespace ebb::files
