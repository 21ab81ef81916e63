// The one file that is compiled with paths of this machine, so that a compiler cache knows the
// others in any checkout.
#include "paths.h"

#include <cstdlib>

namespace ebb {
namespace {

std::string find(const char* variable, const char* built) {
  const char* said = std::getenv(variable);
  return said == nullptr ? built : said;
}

}  // namespace

std::filesystem::path source_folder() { return find("EBB_SOURCE_DIR", EBB_SOURCE_DIR); }
std::string ebb_command() { return find("EBB_COMMAND", EBB_COMMAND); }
std::string hybrid_library() { return find("EBB_HYBRID_LIBRARY", EBB_HYBRID_LIBRARY); }

}  // namespace ebb
