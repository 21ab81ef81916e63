// How the optimizer state of a chunk lies in memory: its planes one behind the other in one piece,
// so that moving a chunk's state is one copy. The weight is not part of it: with bf16 weights the
// state holds the master's low half, with f32 weights the weight is the master.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "ebb/units.h"
#include "kernels/update.h"

namespace ebb::optim {

using kernels::StateFormat;

// What the layout of a state depends on. Memory filled with zeros is the state of a start, in every
// format.
struct StateKind {
  StateFormat format = StateFormat::exact;
  DType weight_type = DType::bf16;
  int moments = 2;  // 1 for rules that keep the first alone
};

// Every plane starts at a multiple of this from the piece's start: a cache line, a full vector.
inline constexpr Bytes kPlaneAlignment = 64;

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
  PlaneOffsets at;
  const auto next = [&](Bytes bytes) {
    if (bytes == 0) return at.end;
    const Bytes start = (at.end + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
    at.end = start + bytes;
    return start;
  };
  const Bytes moment = kernels::moment_plane_bytes(kind.format, count);
  at.low = next(kind.weight_type == DType::bf16 ? 2 * count : 0);
  at.first = next(moment);
  at.second = next(kind.moments == 2 ? moment : 0);
  at.scales =
      next(kind.format == StateFormat::int8 ? kind.moments * kernels::state_blocks(count) : 0);
  return at;
}

// The size of the piece: from its start to the last byte of its last plane.
constexpr Bytes state_bytes(const StateKind& kind, std::int64_t count) {
  return plane_offsets(kind, count).end;
}

// The planes' own bytes, without what aligning them adds.
constexpr double state_bytes_per_parameter(const StateKind& kind) {
  const double moment = static_cast<double>(kernels::moment_bytes(kind.format)) +
                        (kind.format == StateFormat::int8 ? 1.0 / kernels::kStateBlock : 0.0);
  return (kind.weight_type == DType::bf16 ? 2 : 0) + kind.moments * moment;
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

}  // namespace ebb::optim
