// Cross entropy of long rows: a cluster of blocks has a row, which waits in their shared memory
// between the sum of its exponentials and its gradient, so that it is read once. A row of a large
// vocabulary is too long for one multiprocessor, and all rows at work for the L2 cache.
//
// A cluster takes row after row. Its threads read and write columns of their own: when one has
// written a pack of its gradient, it asks for the same pack of the next row, which so is on its way
// while this one is written. (Each read first and then written, 512 rows of 151,936 took 178 us on
// an H200, of which their bytes ask for 109.)
#pragma once

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>

#include <cfloat>

#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

constexpr int kClusterBlocks = 8;
constexpr int kClusterThreads = 512;
constexpr int kClusterWidth = 4;                       // 16 bytes of logits
constexpr std::int64_t kFewestClusterColumns = 32768;  // of a row that is worth a cluster

struct LossRows {
  float* losses;
  const std::int32_t* targets;
  float scale;
  std::int64_t rows;
  std::int64_t cols;
};

// Columns of a block: whole packs.
inline std::int64_t cluster_share(std::int64_t cols) {
  const std::int64_t packs = cols / kClusterWidth;
  return (packs + kClusterBlocks - 1) / kClusterBlocks * kClusterWidth;
}

// A block's share of a row, as its threads see it: packs of their own, each from first() on in
// steps of kStep.
struct RowShare {
  static constexpr int kStep = kClusterThreads * kClusterWidth;
  int begin;  // in the row
  int count;
  static __device__ int first() { return static_cast<int>(threadIdx.x) * kClusterWidth; }
};

// The largest and the sum of exponentials of the thread's columns.
__device__ inline float2 sum_share(const float* staged, const RowShare& share) {
  // Finite from the start, so that logits of minus infinity count as nothing and not as NaN.
  float largest = -FLT_MAX, total = 0;
#pragma unroll 4
  for (int j = share.first(); j < share.count; j += RowShare::kStep) {
    float value[kClusterWidth];
    load(value, staged + j);
    const float top = fmaxf(fmaxf(value[0], value[1]), fmaxf(value[2], value[3]));
    if (top > largest) {
      total *= exp_or_zero(largest - top);
      largest = top;
    }
#pragma unroll
    for (int e = 0; e < kClusterWidth; ++e) total += exp_or_zero(value[e] - largest);  // one is 1
  }
  return {largest, total};
}

// Rows are whole packs. Results are bf16, so that the hardware's exponential is as good as another.
// Three blocks on a multiprocessor, where shared memory has room for them, fill each other's waits.
__global__ void __cluster_dims__(kClusterBlocks, 1, 1) __launch_bounds__(kClusterThreads, 3)
    cross_entropy_clusters(Matrix<bf16> dlogits, Matrix<const float> logits, LossRows work,
                           int most_columns) {
  namespace cg = cooperative_groups;
  constexpr int N = kClusterWidth;
  extern __shared__ __align__(16) float staged[];  // this block's share of the row
  __shared__ float parts[32];
  __shared__ float2 sums[kClusterBlocks];  // largest and total of each block, gathered
  __shared__ float2 own[2];                // by turns: the cluster still reads the row's before
  const cg::cluster_group cluster = cg::this_cluster();
  const int begin = static_cast<int>(cluster.block_rank()) * most_columns;
  const RowShare share{begin, max(0, min(most_columns, static_cast<int>(work.cols) - begin))};
  const auto fetch = [&](const float* next, int j) {
    __pipeline_memcpy_async(staged + j, next + j, N * sizeof(float));
  };
  const std::int64_t clusters = gridDim.x / kClusterBlocks;
  std::int64_t row = blockIdx.x / kClusterBlocks;
  for (int j = share.first(); j < share.count; j += RowShare::kStep) {
    fetch(logits.row(row) + begin, j);
  }

  for (int turn = 0; row < work.rows; row += clusters) {
    const bool more = row + clusters < work.rows;
    const float* const next = logits.row(row + (more ? clusters : 0)) + begin;
    bf16* const to = dlogits.row(row) + begin;
    const std::int32_t target = work.targets[row];
    __pipeline_commit();
    __pipeline_wait_prior(0);  // a thread for its own packs
    if (target < 0) {          // in every block of the cluster
      const float zeros[N] = {};
      for (int j = share.first(); j < share.count; j += RowShare::kStep) {
        store(to + j, zeros);
        if (more) fetch(next, j);
      }
      if (begin == 0 && threadIdx.x == 0) work.losses[row] = 0;
      continue;
    }
    const float2 mine = sum_share(staged, share);
    const float of_block = block_max(mine.x, parts);
    const float block_total = block_sum(mine.y * __expf(mine.x - of_block), parts);
    const int here = target - begin;
    float target_logit = 0;
    if (threadIdx.x == 0) {
      own[turn] = {of_block, block_total};
      // Behind the cluster's barrier it may be the next row's.
      if (here >= 0 && here < share.count) target_logit = staged[here];
    }
    cluster.sync();
    if (threadIdx.x < kClusterBlocks) {
      sums[threadIdx.x] = *cluster.map_shared_rank(&own[turn], threadIdx.x);
    }
    turn ^= 1;
    __syncthreads();

    float largest = sums[0].x;
#pragma unroll
    for (int b = 1; b < kClusterBlocks; ++b) largest = fmaxf(largest, sums[b].x);
    float total = 0;
#pragma unroll
    for (int b = 0; b < kClusterBlocks; ++b) total += sums[b].y * __expf(sums[b].x - largest);
    const float log_total = logf(total), log_sum = largest + log_total;
    if (threadIdx.x == 0 && here >= 0 && here < share.count) {
      work.losses[row] = (largest - target_logit) + log_total;
    }
#pragma unroll 2
    for (int j = share.first(); j < share.count; j += RowShare::kStep) {
      float value[N];
      load(value, staged + j);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        value[e] = __fmul_rn(__expf(value[e] - log_sum), work.scale);
        if (j + e == here) value[e] = __fsub_rn(value[e], work.scale);
      }
      store(to + j, value);
      if (more) fetch(next, j);
    }
  }
  cluster.sync();  // who leaves takes its shared memory along
}

}  // namespace ebb::kernels::cuda_model
