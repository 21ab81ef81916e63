// Cross entropy of long rows: a cluster of blocks has a row, which waits in their registers between
// the sum of its exponentials and its gradient, so that it is read once. A row of a large
// vocabulary is too long for one multiprocessor, and all rows at work for the L2 cache.
//
// A cluster takes row after row. A thread has columns of its own; when it has taken those of a row
// from shared memory, it asks for those of the next, which so are on their way all the while.
#pragma once

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>

#include <cfloat>

#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

constexpr int kClusterBlocks = 8;
constexpr int kClusterThreads = 512;
constexpr int kClusterWidth = 4;                       // 16 bytes of logits: a pack
constexpr std::int64_t kFewestClusterColumns = 32768;  // of a row that is worth a cluster
// Packs of a thread, as many as its registers hold where two blocks share a multiprocessor, or
// where a block has it for itself.
constexpr int kPacksOfTwo = 10, kPacksOfOne = 16;

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

// Packs of a thread, at most.
inline std::int64_t cluster_packs(std::int64_t cols) {
  const std::int64_t step = kClusterThreads * kClusterWidth;
  return (cluster_share(cols) + step - 1) / step;
}

// A block's share of a row. A thread's packs are a block's width apart.
struct RowShare {
  int begin;  // in the row
  int count;

  static __device__ int column(int pack) {
    return (pack * kClusterThreads + static_cast<int>(threadIdx.x)) * kClusterWidth;
  }
  __device__ bool has(int pack) const { return column(pack) < count; }
  // The column, which need not be in the share.
  __device__ bool is_mine(int column) const {
    return column >= 0 && column < count &&
           column / kClusterWidth % kClusterThreads == static_cast<int>(threadIdx.x);
  }
};

// Rows are whole packs. Results are bf16, so that the hardware's exponential is as good as another.
template <int kPacks, int kBlocksThere>
__global__ void __cluster_dims__(kClusterBlocks, 1, 1)
    __launch_bounds__(kClusterThreads, kBlocksThere)
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
  const auto fetch = [&](const float* row) {
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int j = share.column(pack);
      if (share.has(pack)) __pipeline_memcpy_async(staged + j, row + j, N * sizeof(float));
    }
  };
  const std::int64_t clusters = gridDim.x / kClusterBlocks;
  std::int64_t row = blockIdx.x / kClusterBlocks;
  fetch(logits.row(row) + begin);

  for (int turn = 0; row < work.rows; row += clusters) {
    const bool more = row + clusters < work.rows;
    const float* const next = logits.row(row + (more ? clusters : 0)) + begin;
    bf16* const to = dlogits.row(row) + begin;
    const std::int32_t target = work.targets[row];
    __pipeline_commit();
    __pipeline_wait_prior(0);  // a thread for its own packs
    if (target < 0) {          // in every block of the cluster
      const float zeros[N] = {};
#pragma unroll
      for (int pack = 0; pack < kPacks; ++pack) {
        if (share.has(pack)) store(to + share.column(pack), zeros);
      }
      if (more) fetch(next);
      if (begin == 0 && threadIdx.x == 0) work.losses[row] = 0;
      continue;
    }

    float value[kPacks][N];
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      if (share.has(pack)) {
        load(value[pack], staged + share.column(pack));
      } else {
#pragma unroll
        for (int e = 0; e < N; ++e) value[pack][e] = -INFINITY;
      }
    }
    const bool has_target = share.is_mine(target - begin);
    const float target_logit = has_target ? staged[target - begin] : 0.0f;
    if (more) fetch(next);

    // Finite from the start, so that logits of minus infinity count as nothing and not as NaN.
    float largest = -FLT_MAX;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const float* const v = value[pack];
      largest = fmaxf(largest, fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3])));
    }
    float total = 0;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
      for (int e = 0; e < N; ++e) {
        value[pack][e] = exp_or_zero(value[pack][e] - largest);
        total += value[pack][e];
      }
    }
    const float of_block = block_max(largest, parts);
    const float block_total = block_sum(total * __expf(largest - of_block), parts);
    if (threadIdx.x == 0) own[turn] = {of_block, block_total};
    cluster.sync();
    if (threadIdx.x < kClusterBlocks) {
      sums[threadIdx.x] = *cluster.map_shared_rank(&own[turn], threadIdx.x);
    }
    turn ^= 1;
    __syncthreads();

    float of_row = sums[0].x;
#pragma unroll
    for (int b = 1; b < kClusterBlocks; ++b) of_row = fmaxf(of_row, sums[b].x);
    float row_total = 0;
#pragma unroll
    for (int b = 0; b < kClusterBlocks; ++b) row_total += sums[b].y * __expf(sums[b].x - of_row);
    const float log_total = logf(row_total), log_sum = of_row + log_total;
    const float factor = __fmul_rn(__expf(largest - log_sum), work.scale);
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      if (!share.has(pack)) continue;
#pragma unroll
      for (int e = 0; e < N; ++e) value[pack][e] = __fmul_rn(value[pack][e], factor);
      store(to + share.column(pack), value[pack]);
    }
    if (has_target) {  // over what was stored above
      const float likely = __fmul_rn(__expf(target_logit - log_sum), work.scale);
      const float gradient[1] = {__fsub_rn(likely, work.scale)};
      store(to + (target - begin), gradient);
      work.losses[row] = (of_row - target_logit) + log_total;
    }
  }
  cluster.sync();  // who leaves takes its shared memory along
}

}  // namespace ebb::kernels::cuda_model
