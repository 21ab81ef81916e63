// Cross entropy of long rows: a cluster of blocks has a row, which waits in their shared memory
// between the sum of its exponentials and its gradient, so that it is read once. A row of a large
// vocabulary is too long for one multiprocessor, and all rows at work for the L2 cache.
#pragma once

#include <cooperative_groups.h>

#include <cfloat>
#include <utility>

#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

constexpr int kClusterBlocks = 8;
constexpr unsigned kClusterThreads = 512;
constexpr int kClusterWidth = 4;                       // 16 bytes of logits
constexpr std::int64_t kFewestClusterColumns = 32768;  // of a row that is worth a cluster

struct LossRows {
  float* losses;
  const std::int32_t* targets;
  float scale;
  std::int64_t cols;
};

// Columns of a block: whole packs.
inline std::int64_t cluster_share(std::int64_t cols) {
  const std::int64_t packs = cols / kClusterWidth;
  return (packs + kClusterBlocks - 1) / kClusterBlocks * kClusterWidth;
}

// Rows are whole packs. Results are bf16, so that the hardware's exponential is as good as another.
__global__ void __cluster_dims__(kClusterBlocks, 1, 1) __launch_bounds__(kClusterThreads)
    cross_entropy_clusters(Matrix<bf16> dlogits, Matrix<const float> logits, LossRows work,
                           std::int64_t share) {
  namespace cg = cooperative_groups;
  constexpr int N = kClusterWidth;
  extern __shared__ __align__(16) float staged[];  // this block's share of the row
  __shared__ float parts[32];
  __shared__ float2 sums[kClusterBlocks];  // largest and total of each block, gathered
  __shared__ float2 own;
  const cg::cluster_group cluster = cg::this_cluster();
  const std::int64_t row = blockIdx.x / kClusterBlocks, begin = cluster.block_rank() * share;
  const std::int64_t count = max(std::int64_t{0}, min(share, work.cols - begin));
  const std::int64_t first = threadIdx.x * N, step = kClusterThreads * N;
  const float* const from = logits.row(row) + begin;
  bf16* const to = dlogits.row(row) + begin;
  const std::int64_t target = work.targets[row];
  if (target < 0) {  // in every block of the cluster
    const float zeros[N] = {};
    for (std::int64_t j = first; j < count; j += step) store(to + j, zeros);
    if (begin == 0 && threadIdx.x == 0) work.losses[row] = 0;
    return;
  }

  // Finite from the start, so that logits of minus infinity count as nothing and not as NaN.
  float largest = -FLT_MAX, total = 0;
#pragma unroll 4
  for (std::int64_t j = first; j < count; j += step) {
    float value[N];
    load(value, from + j);
    store(staged + j, value);
    const float top = fmaxf(fmaxf(value[0], value[1]), fmaxf(value[2], value[3]));
    if (top > largest) {
      total *= __expf(largest - top);
      largest = top;
    }
#pragma unroll
    for (int e = 0; e < N; ++e) total += __expf(value[e] - largest);
  }
  const float of_block = block_max(largest, parts);
  total = block_sum(total * __expf(largest - of_block), parts);
  if (threadIdx.x == 0) own = {of_block, total};
  cluster.sync();
  if (threadIdx.x < kClusterBlocks) {
    sums[threadIdx.x] = *cluster.map_shared_rank(&own, threadIdx.x);
  }
  __syncthreads();
  auto read = cluster.barrier_arrive();  // nobody reads this block's sums behind the wait

  largest = sums[0].x;
#pragma unroll
  for (int b = 1; b < kClusterBlocks; ++b) largest = fmaxf(largest, sums[b].x);
  total = 0;
#pragma unroll
  for (int b = 0; b < kClusterBlocks; ++b) total += sums[b].y * __expf(sums[b].x - largest);
  const float log_total = logf(total), log_sum = largest + log_total;
  const std::int64_t here = target - begin;
  if (threadIdx.x == 0 && here >= 0 && here < count) {
    work.losses[row] = (largest - staged[here]) + log_total;
  }
  for (std::int64_t j = first; j < count; j += step) {
    float value[N];
    load(value, staged + j);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      value[e] = __expf(value[e] - log_sum) * work.scale;
      if (j + e == here) value[e] -= work.scale;
    }
    store(to + j, value);
  }
  cluster.barrier_wait(std::move(read));
}

}  // namespace ebb::kernels::cuda_model
