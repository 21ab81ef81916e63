#include "dist/host_name.h"

#include <unistd.h>

#include <array>

#include "base/printable.h"

namespace ebb::dist {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return printable(name.data(), name.size());
}

}  // namespace ebb::dist
