// What a stored weight matrix is made of: plain numbers, or blocks of a few bits each with the
// scales that their numbers share, as GGUF files hold them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/planes.h"

namespace ebb::kernels {

enum class WeightType : std::uint8_t {
  f32,
  bf16,
  f16,
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

inline constexpr std::array kWeightTypes = {
    WeightType::f32,  WeightType::bf16, WeightType::f16,  WeightType::q4_0, WeightType::q4_1,
    WeightType::q5_0, WeightType::q5_1, WeightType::q8_0, WeightType::q2_k, WeightType::q3_k,
    WeightType::q4_k, WeightType::q5_k, WeightType::q6_k};

// Whether numbers share scales. Plain ones are blocks of one.
constexpr bool in_blocks(WeightType type) { return type > WeightType::f16; }

// Whether every number has an offset beside its scale.
constexpr bool has_offsets(WeightType type) {
  return type == WeightType::q4_1 || type == WeightType::q5_1 || type == WeightType::q2_k ||
         type == WeightType::q4_k || type == WeightType::q5_k;
}

constexpr WeightType weight_type(DType type) {
  return type == DType::bf16 ? WeightType::bf16 : WeightType::f32;
}

// Bytes and numbers of one block.
constexpr Grain grain_of(WeightType type) {
  switch (type) {
    case WeightType::f32: return {4, 1};
    case WeightType::bf16:
    case WeightType::f16: return {2, 1};
    case WeightType::q4_0: return {18, 32};
    case WeightType::q4_1: return {20, 32};
    case WeightType::q5_0: return {22, 32};
    case WeightType::q5_1: return {24, 32};
    case WeightType::q8_0: return {34, 32};
    case WeightType::q2_k: return {84, 256};
    case WeightType::q3_k: return {110, 256};
    case WeightType::q4_k: return {144, 256};
    case WeightType::q5_k: return {176, 256};
    case WeightType::q6_k: break;
  }
  return {210, 256};
}

// As files and people write it.
constexpr std::string_view name_of(WeightType type) {
  switch (type) {
    case WeightType::f32: return "F32";
    case WeightType::bf16: return "BF16";
    case WeightType::f16: return "F16";
    case WeightType::q4_0: return "Q4_0";
    case WeightType::q4_1: return "Q4_1";
    case WeightType::q5_0: return "Q5_0";
    case WeightType::q5_1: return "Q5_1";
    case WeightType::q8_0: return "Q8_0";
    case WeightType::q2_k: return "Q2_K";
    case WeightType::q3_k: return "Q3_K";
    case WeightType::q4_k: return "Q4_K";
    case WeightType::q5_k: return "Q5_K";
    case WeightType::q6_k: break;
  }
  return "Q6_K";
}

// A matrix as it is stored: rows one behind the other, each of whole blocks, so `cols` is a
// multiple of the grain. Plain numbers lie on their own size, blocks on any byte.
struct WeightMatrix {
  const void* data = nullptr;
  WeightType type = WeightType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  constexpr Bytes row_bytes() const { return grain_of(type).size_of(cols); }
  constexpr Bytes bytes() const { return rows * row_bytes(); }
  const std::byte* row(std::int64_t i) const {
    return static_cast<const std::byte*>(data) + i * row_bytes();
  }
};

}  // namespace ebb::kernels
