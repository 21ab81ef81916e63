// The planes of a parameter's state by name, and how long they are.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "optim/format.h"

namespace ebb::hybrid {

enum class Plane : std::uint8_t { weight, low, first, second, scales };

constexpr std::string_view name_of(Plane plane) {
  switch (plane) {
    case Plane::weight: return "weight";
    case Plane::low: return "low";
    case Plane::first: return "first";
    case Plane::second: return "second";
    case Plane::scales: return "scales";
  }
  return "?";
}

// Those that the kind has, in the order of files and digests.
inline std::vector<Plane> moment_planes(const optim::StateKind& kind) {
  std::vector<Plane> planes = {Plane::first};
  if (kind.moments == 2) planes.push_back(Plane::second);
  if (kind.format == optim::StateFormat::int8) planes.push_back(Plane::scales);
  return planes;
}
inline std::vector<Plane> all_planes(const optim::StateKind& kind) {
  std::vector<Plane> planes = {Plane::weight};
  if (kind.weight_type == DType::bf16) planes.push_back(Plane::low);
  for (const Plane plane : moment_planes(kind)) planes.push_back(plane);
  return planes;
}

// Of the first `count` elements of a tensor or a chunk; where those end with a block of the int8
// format it is also where the next ones start.
constexpr Bytes plane_bytes(Plane plane, const optim::StateKind& kind, std::int64_t count) {
  switch (plane) {
    case Plane::weight: return count * size_of(kind.weight_type);
    case Plane::low: return count * 2;
    case Plane::first:
    case Plane::second: return kernels::moment_plane_bytes(kind.format, count);
    case Plane::scales: return kernels::state_blocks(count) * kind.moments;
  }
  return 0;
}

// Where a plane starts in the piece of a state of `count` parameters; not for weights.
constexpr Bytes plane_start(Plane plane, const optim::StateKind& kind, std::int64_t count) {
  const optim::PlaneOffsets at = optim::plane_offsets(kind, count);
  switch (plane) {
    case Plane::weight: break;
    case Plane::low: return at.low;
    case Plane::first: return at.first;
    case Plane::second: return at.second;
    case Plane::scales: return at.scales;
  }
  return 0;
}

}  // namespace ebb::hybrid
