// Weights in blocks of a few bits each, as GGUF files hold them: a block is so many numbers with
// the scales that they share. This is the specification: plain loops, one block at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/planes.h"

namespace ebb::kernels {

enum class WeightBlock : std::uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k
};

inline constexpr std::array kWeightBlocks = {
    WeightBlock::q4_0, WeightBlock::q4_1, WeightBlock::q5_0, WeightBlock::q5_1, WeightBlock::q8_0,
    WeightBlock::q2_k, WeightBlock::q3_k, WeightBlock::q4_k, WeightBlock::q5_k, WeightBlock::q6_k};

// Bytes and numbers of one block.
constexpr Grain grain_of(WeightBlock type) {
  switch (type) {
    case WeightBlock::q4_0: return {18, 32};
    case WeightBlock::q4_1: return {20, 32};
    case WeightBlock::q5_0: return {22, 32};
    case WeightBlock::q5_1: return {24, 32};
    case WeightBlock::q8_0: return {34, 32};
    case WeightBlock::q2_k: return {84, 256};
    case WeightBlock::q3_k: return {110, 256};
    case WeightBlock::q4_k: return {144, 256};
    case WeightBlock::q5_k: return {176, 256};
    case WeightBlock::q6_k: break;
  }
  return {210, 256};
}

constexpr std::string_view name_of(WeightBlock type) {
  switch (type) {
    case WeightBlock::q4_0: return "Q4_0";
    case WeightBlock::q4_1: return "Q4_1";
    case WeightBlock::q5_0: return "Q5_0";
    case WeightBlock::q5_1: return "Q5_1";
    case WeightBlock::q8_0: return "Q8_0";
    case WeightBlock::q2_k: return "Q2_K";
    case WeightBlock::q3_k: return "Q3_K";
    case WeightBlock::q4_k: return "Q4_K";
    case WeightBlock::q5_k: return "Q5_K";
    case WeightBlock::q6_k: break;
  }
  return "Q6_K";
}

// The numbers of whole blocks: `to` takes all that `from` holds. Bytes need not be aligned. Every
// product and difference is rounded to fp32 on its own: scale = d * s, then scale * q, then - or +
// the offset. A scale that is not finite gives numbers that are not.
void widen_blocks(WeightBlock type, std::span<const std::byte> from, std::span<float> to);

}  // namespace ebb::kernels
