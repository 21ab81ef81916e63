#include "base/cache_folder.h"

#include <cstdlib>

namespace ebb {

std::optional<std::filesystem::path> cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "ebb";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache/ebb";
  return std::nullopt;
}

}  // namespace ebb
