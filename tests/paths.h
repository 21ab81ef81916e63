// Where tests find what they read and run: where they were built, or where the variables
// EBB_SOURCE_DIR, EBB_COMMAND and EBB_HYBRID_LIBRARY say (a bundle that was carried to another
// machine sets them).
#pragma once

#include <filesystem>
#include <string>

namespace ebb {

std::filesystem::path source_folder();
std::string ebb_command();
std::string hybrid_library();

inline std::filesystem::path golden_folder(const std::string& name) {
  return source_folder() / "tests/golden" / name;
}

}  // namespace ebb
