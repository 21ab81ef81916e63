// Stored weights as the numbers that they stand for. This is the specification: plain loops, one
// block at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/weight_type.h"

namespace ebb::kernels {

// The numbers of whole blocks: `to` takes all that `from` holds. Bytes need not be aligned. Plain
// numbers are exact. Of blocks every product and difference is rounded to fp32 on its own: scale =
// d * s, then scale * q, then - or + the offset. A scale that is not finite gives numbers that are
// not.
void widen_blocks(WeightType type, std::span<const std::byte> from, std::span<float> to);

// The first of whole blocks with a scale or an offset that is not finite; -1 where there is none:
// then all their numbers are finite.
std::int64_t find_bad_block(WeightType type, std::span<const std::byte> from);

// A block's numbers before they are multiplied: number i is scale[i / group] * q[i] - offset[i /
// group], where a type without offsets has zeros there. Blocks only, of 32 or 256 numbers.
struct TakenBlock {
  int group = 32;  // numbers that share a scale: 32 or 16
  float scale[16] = {};
  float offset[16] = {};
  std::int8_t q[256] = {};
};
void take_block(WeightType type, std::span<const std::byte> block, TakenBlock& to);

}  // namespace ebb::kernels
