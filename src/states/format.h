// How the optimizer state of a chunk lies in memory: its planes one behind the other in one piece,
// so that moving a chunk's state is one copy. The weight is not part of it: with bf16 weights the
// state holds the master's low half, with f32 weights the weight is the master.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/planes.h"
#include "ebb/units.h"
#include "kernels/update.h"

namespace ebb::states {

using ebb::Grain;
using ebb::kPlaneAlignment;
using kernels::StateFormat;

// Elements of a parameter that are handled at a time where states and weights are read, written,
// converted and digested: bounds the staging memory, and is enough to hide what a copy costs beside
// its bytes.
inline constexpr std::int64_t kPiece = 256 << 10;

// What the layout of a state depends on. Memory filled with zeros is the state of a start, in every
// format.
struct StateKind {
  StateFormat format = StateFormat::exact;
  DType weight_type = DType::bf16;
  int moments = 2;  // 1 for rules that keep the first alone
};

// Planes that a parameter consists of; those of the state in the order in which they lie.
enum class Plane : std::uint8_t { weight, low, first, second, scales };
inline constexpr std::array kStatePlanes = {Plane::low, Plane::first, Plane::second, Plane::scales};

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

// No bytes where the kind has no such plane.
constexpr Grain grain_of(Plane plane, const StateKind& kind) {
  const bool coded = kind.format == StateFormat::int8;
  const Grain moment = coded ? Grain{kernels::kStateBlock, kernels::kStateBlock}
                             : Grain{kernels::moment_bytes(kind.format), 1};
  switch (plane) {
    case Plane::weight: return {size_of(kind.weight_type), 1};
    case Plane::low: return {kind.weight_type == DType::bf16 ? 2 : 0, 1};
    case Plane::first: return moment;
    case Plane::second: return kind.moments == 2 ? moment : Grain{};
    case Plane::scales: return coded ? Grain{kind.moments, kernels::kStateBlock} : Grain{};
  }
  return {};
}

// The planes of the state that the kind has, in their order.
inline std::vector<Plane> state_planes(const StateKind& kind) {
  std::vector<Plane> planes;
  for (const Plane plane : kStatePlanes) {
    if (grain_of(plane, kind).bytes > 0) planes.push_back(plane);
  }
  return planes;
}

// The same without the master's low half, and all of a parameter, its weight included.
inline std::vector<Plane> moment_planes(const StateKind& kind) {
  std::vector<Plane> planes = state_planes(kind);
  std::erase(planes, Plane::low);
  return planes;
}
inline std::vector<Plane> all_planes(const StateKind& kind) {
  std::vector<Plane> planes = state_planes(kind);
  planes.insert(planes.begin(), Plane::weight);
  return planes;
}

// Bytes of a plane of the first `count` parameters of a tensor or a chunk; where those end with a
// block of the int8 format it is also where the next ones start.
constexpr Bytes plane_bytes(Plane plane, const StateKind& kind, std::int64_t count) {
  return grain_of(plane, kind).size_of(count);
}

// Where the planes of `count` parameters start in their piece, in bytes, and where they all end.
// Planes that the kind does not have are empty.
struct PlaneOffsets {
  Bytes low = 0;
  Bytes first = 0;
  Bytes second = 0;
  Bytes scales = 0;
  Bytes end = 0;
};

// int8: parameters of different tensors share no block, so tensors must start at multiples of
// kernels::kStateBlock from the chunk's start, where the scale of parameter i has index
// i / kStateBlock.
constexpr PlaneOffsets plane_offsets(const StateKind& kind, std::int64_t count) {
  PlaneStack stack;
  const auto next = [&](Plane plane) { return stack.add(grain_of(plane, kind).size_of(count)); };
  PlaneOffsets at;
  at.low = next(Plane::low);
  at.first = next(Plane::first);
  at.second = next(Plane::second);
  at.scales = next(Plane::scales);
  at.end = stack.end;
  return at;
}

constexpr Bytes offset_of(Plane plane, const StateKind& kind, std::int64_t count) {
  const PlaneOffsets at = plane_offsets(kind, count);
  switch (plane) {
    case Plane::weight: break;  // lies elsewhere
    case Plane::low: return at.low;
    case Plane::first: return at.first;
    case Plane::second: return at.second;
    case Plane::scales: return at.scales;
  }
  return 0;
}

// The size of the piece: from its start to the last byte of its last plane.
constexpr Bytes state_bytes(const StateKind& kind, std::int64_t count) {
  return plane_offsets(kind, count).end;
}

// The planes' own bytes, without what aligning them adds.
constexpr double state_bytes_per_parameter(const StateKind& kind) {
  double bytes = 0;
  for (const Plane plane : kStatePlanes) {
    const Grain grain = grain_of(plane, kind);
    bytes += static_cast<double>(grain.bytes) / static_cast<double>(grain.per);
  }
  return bytes;
}

// Borrowed: valid as long as the piece it was made from. Null: the kind has no such plane.
struct StatePlanes {
  std::int16_t* low = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  std::uint8_t* scales = nullptr;
};

// `base` is aligned to kPlaneAlignment and has state_bytes() bytes.
inline StatePlanes planes(std::byte* base, const StateKind& kind, std::int64_t count) {
  const PlaneOffsets at = plane_offsets(kind, count);
  StatePlanes result;
  if (kind.weight_type == DType::bf16) result.low = reinterpret_cast<std::int16_t*>(base + at.low);
  result.first = base + at.first;
  if (kind.moments == 2) result.second = base + at.second;
  if (kind.format == StateFormat::int8) {
    result.scales = reinterpret_cast<std::uint8_t*>(base + at.scales);
  }
  return result;
}

// The span of `count` of a chunk's parameters, from `start` on, with its state's planes set.
inline kernels::StateSpan state_span(const StatePlanes& planes, const StateKind& kind,
                                     std::int64_t start, std::int64_t count) {
  kernels::StateSpan span;
  span.weight_type = kind.weight_type;
  span.low = planes.low;
  span.format = kind.format;
  span.first = planes.first;
  span.second = planes.second;
  span.scales = planes.scales;
  span = kernels::part_of(span, start, count);
  span.first_element = 0;
  return span;
}

}  // namespace ebb::states
