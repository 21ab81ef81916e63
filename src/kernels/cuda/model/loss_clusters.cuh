// Cross entropy of rows in pieces, all of them at once: a cluster of blocks has a row, each of them
// a piece, which waits in its shared memory between the sum of its exponentials and its gradient,
// so that it is read once. A row of a large vocabulary is too long for one multiprocessor, and all
// rows at work for the L2 cache.
//
// A cluster takes row after row. Its threads read and write columns of their own: when one has
// written a pack of its gradient, it asks for the same pack of the next row, which so is on its way
// while this one is written. (Each read first and then written, 512 rows of 151,936 took 178 us on
// an H200, of which their bytes ask for 109.)
#pragma once

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>

#include "kernels/cuda/model/loss_pieces.cuh"

namespace ebb::kernels::cuda_model {

// Packs lie at multiples of their size. Three blocks on a multiprocessor, where shared memory has
// room for them, fill each other's waits.
__global__ void __cluster_dims__(kMostPieces, 1, 1) __launch_bounds__(kPieceThreads, 3)
    cross_entropy_clusters(PieceMatrix<bf16> dlogits, PieceMatrix<const float> logits,
                           LossRows work) {
  namespace cg = cooperative_groups;
  constexpr int N = kPieceWidth;
  extern __shared__ __align__(16) float staged[];  // whole packs of this block's piece of the row
  __shared__ float parts[32];
  __shared__ float2 sums[kMostPieces];  // largest and total of each block, gathered
  __shared__ float2 own[2];             // by turns: the cluster still reads the row's before
  const cg::cluster_group cluster = cg::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int begin = logits.begin(rank);
  const PieceColumns piece{logits.count(rank)};
  const int full = piece.full();
  const auto fetch = [&](const float* next, int j) {
    __pipeline_memcpy_async(staged + j, next + j, N * sizeof(float));
  };
  const std::int64_t clusters = gridDim.x / kMostPieces;
  std::int64_t row = blockIdx.x / kMostPieces;
  for (int j = PieceColumns::first(); j < full; j += PieceColumns::kStep) {
    fetch(logits.row(row, rank), j);
  }

  for (int turn = 0; row < work.rows; row += clusters) {
    const bool more = row + clusters < work.rows;
    const float* const from = logits.row(row, rank);
    const float* const next = logits.row(row + (more ? clusters : 0), rank);
    bf16* const to = dlogits.row(row, rank);
    const std::int32_t target = work.targets[row];
    __pipeline_commit();
    __pipeline_wait_prior(0);  // a thread for its own packs
    if (target < 0) {          // in every block of the cluster
      const float zeros[N] = {};
      for (int j = PieceColumns::first(); j < full; j += PieceColumns::kStep) {
        store(to + j, zeros);
        if (more) fetch(next, j);
      }
      if (piece.has_tail()) store_tail(to, zeros, piece);
      if (rank == 0 && threadIdx.x == 0) work.losses[row] = 0;
      continue;
    }
    const float2 of_block = sum_of_block<bf16>(sum_columns<bf16, true>(staged, from, piece), parts);
    const int here = target - begin;
    float target_logit = 0;
    if (threadIdx.x == 0) {
      own[turn] = of_block;
      // Behind the cluster's barrier what is staged may be the next row's.
      if (here >= 0 && here < piece.count) target_logit = here < full ? staged[here] : from[here];
    }
    cluster.sync();
    if (threadIdx.x < kMostPieces) {
      sums[threadIdx.x] = *cluster.map_shared_rank(&own[turn], threadIdx.x);
    }
    turn ^= 1;
    __syncthreads();

    const CombinedRow all = combine<bf16>([&](int p) { return sums[p]; });
    if (threadIdx.x == 0 && here >= 0 && here < piece.count) {
      work.losses[row] = all.loss(target_logit);
    }
#pragma unroll 2
    for (int j = PieceColumns::first(); j < full; j += PieceColumns::kStep) {
      float value[N];
      load(value, staged + j);
      turn_into_gradient<bf16>(value, j, here, all, work.scale);
      store(to + j, value);
      if (more) fetch(next, j);
    }
    if (piece.has_tail()) {
      float value[N];
      load_tail(value, from, piece);
      turn_into_gradient<bf16>(value, full, here, all, work.scale);
      store_tail(to, value, piece);
    }
  }
  cluster.sync();  // a block that leaves takes its shared memory along
}

}  // namespace ebb::kernels::cuda_model
