// What computes products with stored weights on one instruction set, as functions that
// linear.cpp calls: rows of x are prepared once, then rows of the weights are multiplied with all
// of them. Every set gives the same bits, those of reference/linear.h, but for sums of bf16 where
// the processor has an instruction for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/model_ops.h"

namespace ebb::kernels {

// How numbers meet.
enum class LinearArithmetic : std::uint8_t { floats, pairs, eight_bits };

constexpr LinearArithmetic arithmetic_of(DType x, WeightType weights) {
  if (x == DType::f32) return LinearArithmetic::floats;
  if (in_blocks(weights)) return LinearArithmetic::eight_bits;
  return weights == WeightType::bf16 ? LinearArithmetic::pairs : LinearArithmetic::floats;
}

// Numbers that share a scale and an offset.
constexpr std::int64_t group_of(WeightType type) {
  return type == WeightType::q2_k || type == WeightType::q3_k || type == WeightType::q6_k ? 16 : 32;
}

// A prepared row: the numbers, filled up with zeros; of 8-bit ones then the scale of each group of
// the weights, and the sum of the group's numbers times that.
struct PreparedLayout {
  std::int64_t cols = 0;    // with the zeros
  std::int64_t groups = 0;  // of 8-bit rows
  Bytes scales = 0, sums = 0;
  Bytes row_bytes = 0;

  PreparedLayout(LinearArithmetic arithmetic, const WeightMatrix& weights);
};

// A weight row that was taken apart for many rows of x: bytes, scales, offsets; or fp32 numbers.
Bytes unpacked_row_bytes(LinearArithmetic arithmetic, const WeightMatrix& weights);
// Weight rows that are taken apart at a time. A slot has memory for them.
inline constexpr std::int64_t kUnpackedRows = 12;
// From so many rows of x on that pays.
inline constexpr std::int64_t kManyRows = 12;

// Rows [first, last) of the weights times the prepared rows, which belong to rows of y from `row`
// on.
struct LinearJob {
  const Linear& call;
  const std::byte* prepared;
  std::int64_t row, rows;
  std::int64_t first, last;
  std::byte* slot;  // memory for kUnpackedRows
};

struct LinearKernels {
  // `x` is a row of the call's.
  void (*prepare)(const Linear& call, std::int64_t row, std::byte* to);
  void (*floats)(const LinearJob& job);
  void (*pairs)(const LinearJob& job);
  void (*eight_bits)(const LinearJob& job);
  // A row's whole numbers, as widen_blocks gives them; zeros up to `to`'s end.
  void (*widen)(const WeightMatrix& weights, std::int64_t row, std::span<float> to);
};

const LinearKernels& avx2_linear_kernels();
// AVX-512 with VNNI; `pairs` wants BF16, too.
const LinearKernels& avx512_linear_kernels();

}  // namespace ebb::kernels
