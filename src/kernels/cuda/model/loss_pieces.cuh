// Cross entropy of long rows, piece by piece: what the kernels of whole rows (loss_clusters.cuh and
// those below) and of single pieces share, so that their bits are equal. Every operation that could
// be contracted into another is written as one that cannot: where code is inlined must not matter.
//
// A block has a piece: its threads have packs of four columns, each from first() on in steps of
// kStep, in this order; what is left of the last pack is the tail, of the thread whose turn it is.
#pragma once

#include <cfloat>
#include <type_traits>

#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

constexpr int kPieceThreads = 512;
constexpr int kPieceWidth = 4;  // 16 bytes of logits

struct LossRows {
  float* losses;
  const std::int32_t* targets;
  float scale;
  std::int64_t rows;
};

// A matrix in pieces, and one of them.
template <class T>
struct PieceMatrix {
  T* data;
  std::int64_t stride, distance;
  int columns;        // of every piece but the last
  std::int64_t cols;  // of all
  int pieces;
  __device__ int begin(int piece) const { return piece * columns; }
  __device__ int count(int piece) const {
    return max(0, min(columns, static_cast<int>(cols - begin(piece))));
  }
  __device__ T* row(std::int64_t i, int piece) const {
    return data + piece * distance + i * stride;
  }
};

// A piece's columns as a block's threads see them.
struct PieceColumns {
  static constexpr int kStep = kPieceThreads * kPieceWidth;
  int count;
  static __device__ int first() { return static_cast<int>(threadIdx.x) * kPieceWidth; }
  __device__ int full() const { return count / kPieceWidth * kPieceWidth; }
  __device__ bool has_tail() const {
    return count > full() && full() / kPieceWidth % kPieceThreads == static_cast<int>(threadIdx.x);
  }
};

// Where results are bf16 the hardware's exponential is as good as another.
template <class D>
__device__ float exponential(float x) {
  if constexpr (std::is_same_v<D, bf16>)
    return __expf(x);
  else
    return expf(x);
}
template <class D>
__device__ float summand(float x) {
  if constexpr (std::is_same_v<D, bf16>)
    return exp_or_zero(x);
  else
    return expf(x);
}

// The largest and the sum of exponentials of the columns so far.
struct RunningSum {
  // Finite from the start, so that logits of minus infinity count as nothing and not as NaN.
  float largest = -FLT_MAX, total = 0;

  template <class D>
  __device__ void add(const float (&value)[kPieceWidth]) {
    const float top = fmaxf(fmaxf(value[0], value[1]), fmaxf(value[2], value[3]));
    if (top > largest) {
      total = __fmul_rn(total, summand<D>(__fsub_rn(largest, top)));
      largest = top;
    }
#pragma unroll
    for (int e = 0; e < kPieceWidth; ++e) {
      total = __fadd_rn(total, summand<D>(__fsub_rn(value[e], largest)));  // one is 1
    }
  }
};

template <bool kVectors>
__device__ void load_pack(float (&value)[kPieceWidth], const float* from) {
  if constexpr (kVectors) {
    load(value, from);
  } else {
#pragma unroll
    for (int e = 0; e < kPieceWidth; ++e) value[e] = from[e];
  }
}
// What is left of the last pack; elements behind it are nothing.
__device__ inline void load_tail(float (&value)[kPieceWidth], const float* row,
                                 const PieceColumns& piece) {
#pragma unroll
  for (int e = 0; e < kPieceWidth; ++e) {
    value[e] = piece.full() + e < piece.count ? row[piece.full() + e] : -INFINITY;
  }
}

// The thread's columns: whole packs from `packs`, where they are staged or in place, and the tail
// from the row.
template <class D, bool kVectors>
__device__ RunningSum sum_columns(const float* packs, const float* row, const PieceColumns& piece) {
  RunningSum sum;
#pragma unroll 4
  for (int j = PieceColumns::first(); j < piece.full(); j += PieceColumns::kStep) {
    float value[kPieceWidth];
    load_pack<kVectors>(value, packs + j);
    sum.add<D>(value);
  }
  if (piece.has_tail()) {
    float value[kPieceWidth];
    load_tail(value, row, piece);
    sum.add<D>(value);
  }
  return sum;
}

// Largest and total of a piece, in every thread.
template <class D>
__device__ float2 sum_of_block(const RunningSum& mine, float* parts) {
  const float largest = block_max(mine.largest, parts);
  const float own = __fmul_rn(mine.total, exponential<D>(__fsub_rn(mine.largest, largest)));
  return {largest, block_sum(own, parts)};
}

struct CombinedRow {
  float largest, log_total, log_sum;
  __device__ float loss(float target_logit) const {
    return __fadd_rn(__fsub_rn(largest, target_logit), log_total);
  }
};

// A piece that is not there: it changes no bit of what others add up to.
__device__ inline float2 no_piece() { return {-FLT_MAX, 0.0f}; }

// Pieces in their order; `each(p)` is the largest and the total of one, no_piece() behind the last.
template <class D, class Each>
__device__ CombinedRow combine(const Each& each) {
  CombinedRow row{each(0).x, 0, 0};
#pragma unroll
  for (int p = 1; p < kMostPieces; ++p) row.largest = fmaxf(row.largest, each(p).x);
  float total = 0;
#pragma unroll
  for (int p = 0; p < kMostPieces; ++p) {
    const float2 piece = each(p);
    total = __fmaf_rn(piece.y, exponential<D>(__fsub_rn(piece.x, row.largest)), total);
  }
  row.log_total = logf(total);
  row.log_sum = __fadd_rn(row.largest, row.log_total);
  return row;
}

// In place: `here` is the target's place in the piece, `at` that of the first value.
template <class D>
__device__ void turn_into_gradient(float (&value)[kPieceWidth], int at, int here,
                                   const CombinedRow& row, float scale) {
#pragma unroll
  for (int e = 0; e < kPieceWidth; ++e) {
    value[e] = __fmul_rn(exponential<D>(__fsub_rn(value[e], row.log_sum)), scale);
    if (at + e == here) value[e] = __fsub_rn(value[e], scale);
  }
}

template <bool kVectors, class D>
__device__ void store_pack(D* to, const float (&value)[kPieceWidth]) {
  if constexpr (kVectors) {
    store(to, value);
  } else {
#pragma unroll
    for (int e = 0; e < kPieceWidth; ++e) store(to + e, {value[e]});
  }
}
template <class D>
__device__ void store_tail(D* row, const float (&value)[kPieceWidth], const PieceColumns& piece) {
#pragma unroll
  for (int e = 0; e < kPieceWidth; ++e) {
    if (piece.full() + e < piece.count) store(row + piece.full() + e, {value[e]});
  }
}

// A block's gradients of a piece, zeros where the row has no target. A thread reads a pack before
// it writes the same one: both may be the same memory.
template <class D, bool kVectors>
__device__ void write_gradients(D* to, const float* from, const PieceColumns& piece, int here,
                                bool counts, const CombinedRow& row, float scale) {
#pragma unroll 2
  for (int j = PieceColumns::first(); j < piece.full(); j += PieceColumns::kStep) {
    float value[kPieceWidth] = {};
    if (counts) {
      load_pack<kVectors>(value, from + j);
      turn_into_gradient<D>(value, j, here, row, scale);
    }
    store_pack<kVectors>(to + j, value);
  }
  if (piece.has_tail()) {
    float value[kPieceWidth] = {};
    if (counts) {
      load_tail(value, from, piece);
      turn_into_gradient<D>(value, piece.full(), here, row, scale);
    }
    store_tail(to, value, piece);
  }
}

}  // namespace ebb::kernels::cuda_model
