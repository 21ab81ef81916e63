// products.json: the machine's file of choices of matrix algorithms, one object for each device,
// library and way to choose.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/json.h"
#include "base/note.h"
#include "io/file_system.h"

namespace ebb::engine {

// All of it, an object; empty where there is no file. One that cannot be read is no reason not to
// train: it counts as empty, and `note` hears why.
Json read_gemm_cache_file(io::FileSystem& files, const std::filesystem::path& path,
                          const Note& note);

// kernels::GemmChoices: the texts of such an object; what else is in it is passed over, and
// anything but an object has none.
std::map<std::string, std::string> choices_of(const Json& json);

}  // namespace ebb::engine
