// The planes of a parameter's state, as files and digests go through them.
#pragma once

#include <vector>

#include "optim/format.h"

namespace ebb::hybrid {

using optim::Plane;

inline std::vector<Plane> moment_planes(const optim::StateKind& kind) {
  std::vector<Plane> planes = optim::state_planes(kind);
  std::erase(planes, Plane::low);
  return planes;
}
inline std::vector<Plane> all_planes(const optim::StateKind& kind) {
  std::vector<Plane> planes = optim::state_planes(kind);
  planes.insert(planes.begin(), Plane::weight);
  return planes;
}

inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Of the first `count` elements of a tensor or a chunk; where those end with a block of the int8
// format it is also where the next ones start.
constexpr Bytes plane_bytes(Plane plane, const optim::StateKind& kind, std::int64_t count) {
  return optim::grain_of(plane, kind).size_of(count);
}

}  // namespace ebb::hybrid
