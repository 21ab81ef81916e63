// Teams that share the work on one run of a norm, that is on one group of one row: a block, or a
// warp where the runs are short. Thread `rank` of a team of `size` has its own columns of every
// run, and a block has `count` teams.
#pragma once

#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

struct BlockTeam {
  static __device__ unsigned rank() { return threadIdx.x; }
  static __device__ unsigned size() { return blockDim.x; }
  static __device__ unsigned index() { return 0; }
  static __device__ unsigned count() { return 1; }
  // Over the team's threads, which all call; `parts` is shared and has room for 32.
  static __device__ float sum(float value, float* parts) { return block_sum(value, parts); }
};

struct WarpTeam {
  static __device__ unsigned rank() { return threadIdx.x % 32; }
  static __device__ unsigned size() { return 32; }
  static __device__ unsigned index() { return threadIdx.x / 32; }
  static __device__ unsigned count() { return blockDim.x / 32; }
  static __device__ float sum(float value, float*) { return warp_sum(value); }
};

// The most columns of a run that a warp takes by itself.
constexpr std::int64_t kMostWarpColumns = 256;

// Calls body with the team for runs of `width` columns. A row that is one run has a block, however
// short it is.
template <class Body>
void with_team(std::int64_t width, std::int64_t groups, const Body& body) {
  groups > 1 && width <= kMostWarpColumns ? body(WarpTeam{}) : body(BlockTeam{});
}

// Calls body with std::bool_constant: whether runs have a mean beside their rstd.
template <class Body>
void with_kind(LayerNorm::Kind kind, const Body& body) {
  kind == LayerNorm::Kind::layer ? body(std::true_type{}) : body(std::false_type{});
}

// What a run's stats say. There is no mean without `Centered`, and x - 0 is x to the bit.
struct RunStats {
  float mean = 0;
  float rstd = 0;
};

template <bool Centered>
__device__ RunStats read_stats(const float* stats, std::int64_t run) {
  if constexpr (Centered) {
    return {stats[2 * run], stats[2 * run + 1]};
  } else {
    return {0.0f, stats[run]};
  }
}

// Weights as they count. No offset must leave them alone: -0 + 0 would be another number.
template <int N, class T>
__device__ void load_gain(float (&gain)[N], const T* weight, float offset) {
  load(gain, weight);
  if (offset == 0.0f) return;
#pragma unroll
  for (int e = 0; e < N; ++e) gain[e] += offset;
}

}  // namespace ebb::kernels::cuda_model
