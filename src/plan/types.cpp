#include "plan/types.h"

namespace ebb::plan {

std::string_view name_of(Site site) {
  constexpr std::array<std::string_view, 3> names = {"resident", "stream", "host"};
  return names[static_cast<std::size_t>(site)];
}

std::string_view name_of(Purpose purpose) {
  constexpr std::array<std::string_view, 6> names = {"weights",     "states",    "gradients",
                                                     "activations", "workspace", "batch"};
  return names[static_cast<std::size_t>(purpose)];
}

}  // namespace ebb::plan
