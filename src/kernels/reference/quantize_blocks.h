// Numbers to blocks of a few bits each: the way back of weight_blocks.h. Like it the specification:
// the bytes of a block follow from its own numbers, whoever makes it.
#pragma once

#include <cstddef>
#include <span>

#include "base/half.h"
#include "kernels/reference/scale_search.h"
#include "kernels/reference/weight_blocks.h"

namespace ebb::kernels {

// Scales are half precision numbers, so what blocks hold is bounded.
inline constexpr float kLargestInBlocks = kLargestHalf;

// Whole blocks of a type that is in blocks: `to` takes all that `from` holds. Numbers must be
// finite and at most kLargestInBlocks in magnitude. Scales and offsets are searched for the least
// sum of squared errors of what widen_blocks() then gives; no number counts more than another.
// `loops` are the reference's or others with the same bits (kernels/cpu/search_loops.h).
void quantize_blocks(WeightType type, std::span<const float> from, std::span<std::byte> to,
                     const SearchLoops& loops = reference_search_loops());

}  // namespace ebb::kernels
