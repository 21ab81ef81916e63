// How the optimizer state of a chunk lies in memory: its planes one behind the other in one piece,
// so that moving a chunk's state is one copy. The weight is not part of it: with bf16 weights the
// state holds the master's low half, with f32 weights the weight is the master.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "ebb/units.h"

namespace ebb::optim {

// exact: fp32 master, fp32 moments.
enum class StateFormat : std::uint8_t { exact };

// The planes' own bytes, without what aligning them adds.
constexpr Bytes state_bytes_per_parameter(StateFormat, DType weight_type) {
  return (weight_type == DType::bf16 ? 2 : 0) + 4 + 4;
}

// Every plane starts at a multiple of this from the piece's start: a cache line, a full vector.
inline constexpr Bytes kPlaneAlignment = 64;

// Where the planes of `count` parameters start in their piece, in bytes, and where they all end.
struct PlaneOffsets {
  Bytes low = 0;  // no bytes with f32 weights
  Bytes first = 0;
  Bytes second = 0;
  Bytes end = 0;
};

constexpr PlaneOffsets plane_offsets(StateFormat, DType weight_type, std::int64_t count) {
  const auto aligned = [](Bytes bytes) {
    return (bytes + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
  };
  PlaneOffsets at;
  at.first = weight_type == DType::bf16 ? aligned(2 * count) : 0;
  at.second = at.first + aligned(4 * count);
  at.end = at.second + 4 * count;
  return at;
}

// The size of the piece: from its start to the last byte of its last plane.
constexpr Bytes state_bytes(StateFormat format, DType weight_type, std::int64_t count) {
  return plane_offsets(format, weight_type, count).end;
}

// Borrowed: valid as long as the piece it was made from.
struct StatePlanes {
  std::int16_t* low = nullptr;  // null with f32 weights
  float* first = nullptr;
  float* second = nullptr;
};

// `base` is aligned to kPlaneAlignment and has state_bytes() bytes.
inline StatePlanes planes(std::byte* base, StateFormat format, DType weight_type,
                          std::int64_t count) {
  const PlaneOffsets at = plane_offsets(format, weight_type, count);
  StatePlanes result;
  if (weight_type == DType::bf16) result.low = reinterpret_cast<std::int16_t*>(base + at.low);
  result.first = reinterpret_cast<float*>(base + at.first);
  result.second = reinterpret_cast<float*>(base + at.second);
  return result;
}

}  // namespace ebb::optim
