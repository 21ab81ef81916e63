#include "plan/words.h"

namespace ebb::plan {

std::string_view name_of(Tier tier) {
  constexpr std::array<std::string_view, 3> names = {"device", "host", "disk"};
  return names[static_cast<std::size_t>(tier)];
}

std::string_view name_of(Lane lane) {
  constexpr std::array<std::string_view, 4> names = {"compute", "up", "down", "host"};
  return names[static_cast<std::size_t>(lane)];
}

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
