// Where Ebb keeps what it measured of this machine.
#pragma once

#include <filesystem>
#include <optional>

namespace ebb {

// The folder `ebb` in the user's folder for caches ($XDG_CACHE_HOME, else ~/.cache), which need not
// be there yet. Nothing where neither is an absolute path: as the standard for these folders has
// it, a relative one is as good as none.
std::optional<std::filesystem::path> cache_folder();

}  // namespace ebb
