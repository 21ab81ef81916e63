// Normalisation, forward: a team has one group of one row.
#include <algorithm>

#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/launch.h"
#include "kernels/cuda/model/norm_teams.cuh"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;
using cuda_model::RunStats;

constexpr unsigned kThreads = 512;
constexpr int kRows = 4;                // of a block that takes some at once
constexpr std::int64_t kMostWarps = 8;  // of a block whose teams are warps

template <class T>
struct Forward {
  Matrix<T> y;
  Matrix<const T> x;
  float* stats;
  bool stats_given;
  const T* weight;
  const T* bias;  // or null
  float epsilon;
  float weight_offset;
  std::int64_t groups;
  std::int64_t width;  // of a group
};

// The stats of a run, the same in every thread of its team. Every thread has read its columns when
// the first one returns.
template <int N, class Team, bool Centered, class T>
__device__ RunStats measure(const T* from, std::int64_t width, float epsilon, float* parts) {
  const std::int64_t first = Team::rank() * N, step = Team::size() * N;
  const auto count = static_cast<float>(width);
  RunStats stats;
  if constexpr (Centered) {
    float sum = 0;
    for (std::int64_t j = first; j < width; j += step) {
      float value[N];
      cuda_model::load(value, from + j);
#pragma unroll
      for (int e = 0; e < N; ++e) sum += value[e];
    }
    // A pass of its own for the mean, as in the reference: squares of what is not centered would
    // lose digits.
    stats.mean = Team::sum(sum, parts) / count;
  }
  float squares = 0;
  for (std::int64_t j = first; j < width; j += step) {
    float value[N];
    cuda_model::load(value, from + j);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float centered = value[e] - stats.mean;
      squares = fmaf(centered, centered, squares);
    }
  }
  squares = Team::sum(squares, parts);
  stats.rstd = 1.0f / sqrtf(squares / count + epsilon);
  return stats;
}

// A thread writes only columns that it alone reads, so y may be x's memory.
template <class T, int N, class Team, bool Centered>
__global__ void norm_runs(Forward<T> in, unsigned blocks_per_row) {
  __shared__ float parts[32];
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t group = blockIdx.x % blocks_per_row * Team::count() + Team::index();
  if (group >= in.groups) return;  // a whole warp; a block that is a team always has a group
  const std::int64_t run = row * in.groups + group;
  const T* from = in.x.row(row) + group * in.width;
  RunStats stats;
  if (in.stats_given) {
    stats = cuda_model::read_stats<Centered>(in.stats, run);
  } else {
    stats = measure<N, Team, Centered>(from, in.width, in.epsilon, parts);
    if (Team::rank() == 0) {
      if constexpr (Centered) in.stats[2 * run] = stats.mean;
      in.stats[Centered ? 2 * run + 1 : run] = stats.rstd;
    }
  }
  T* to = in.y.row(row) + group * in.width;
  for (std::int64_t j = Team::rank() * N; j < in.width; j += Team::size() * N) {
    float value[N], gain[N];
    cuda_model::load(value, from + j);
    cuda_model::load_gain(gain, in.weight + j, in.weight_offset);
#pragma unroll
    for (int e = 0; e < N; ++e) value[e] = (value[e] - stats.mean) * stats.rstd * gain[e];
    if (in.bias != nullptr) {
      float shift[N];
      cuda_model::load(shift, in.bias + j);
#pragma unroll
      for (int e = 0; e < N; ++e) value[e] += shift[e];
    }
    cuda_model::store(to + j, value);
  }
}

// The same, to the bit, for rows of which every thread of a block has one pack. A block takes some
// rows at once: their packs are on their way together, stay in registers, and their sums meet at
// one barrier.
template <class T, int N, bool Centered>
__global__ void __launch_bounds__(kThreads, 2) norm_rows(Forward<T> in, std::int64_t rows) {
  __shared__ float parts[2][kRows][kThreads / 32];  // of means and of squares
  const std::int64_t j = threadIdx.x * N, begin = blockIdx.x * kRows;
  const bool mine = j < in.width;
  const auto count = static_cast<float>(in.width);
  // Zeros behind the row's end add nothing to its sums.
  cuda_model::Words<T, N> packs[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (mine && begin + r < rows) packs[r] = cuda_model::load_words<T, N>(in.x.row(begin + r) + j);
  }
  float gain[N] = {};
  if (mine) cuda_model::load_gain(gain, in.weight + j, in.weight_offset);
  // Over each row's threads, lanes and then warps in order, as block_sum.
  const auto sums = [&](float(&values)[kRows], float(&of_rows)[kRows][kThreads / 32]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      values[r] = cuda_model::warp_sum(values[r]);
      if (threadIdx.x % 32 == 0) of_rows[r][threadIdx.x / 32] = values[r];
      values[r] = 0;
    }
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) values[r] += of_rows[r][warp];
    }
  };
  RunStats stats[kRows];
  if (in.stats_given) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (begin + r < rows) stats[r] = cuda_model::read_stats<Centered>(in.stats, begin + r);
    }
  } else {
    float values[kRows] = {};
    if constexpr (Centered) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int e = 0; e < N; ++e) values[r] += cuda_model::element<T, N>(packs[r], e);
      }
      sums(values, parts[0]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) stats[r].mean = values[r] / count, values[r] = 0;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float centered = cuda_model::element<T, N>(packs[r], e) - stats[r].mean;
        if (mine) values[r] = fmaf(centered, centered, values[r]);
      }
    }
    sums(values, parts[1]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      stats[r].rstd = 1.0f / sqrtf(values[r] / count + in.epsilon);
      const std::int64_t row = begin + r;
      if (threadIdx.x != 0 || row >= rows) continue;
      if constexpr (Centered) in.stats[2 * row] = stats[r].mean;
      in.stats[Centered ? 2 * row + 1 : row] = stats[r].rstd;
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (!mine || begin + r >= rows) return;
    float value[N];
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float centered = cuda_model::element<T, N>(packs[r], e) - stats[r].mean;
      value[e] = centered * stats[r].rstd * gain[e];
    }
    if (in.bias != nullptr) {
      float shift[N];
      cuda_model::load(shift, in.bias + j);
#pragma unroll
      for (int e = 0; e < N; ++e) value[e] += shift[e];
    }
    cuda_model::store(in.y.row(begin + r) + j, value);
  }
}

template <class T, int N, class Team, bool Centered>
void launch(const Forward<T>& in, std::int64_t rows, cudaStream_t stream) {
  if constexpr (std::is_same_v<Team, cuda_model::BlockTeam> && N > 1) {
    if (in.groups == 1 && in.width <= kThreads * N) {
      norm_rows<T, N, Centered>
          <<<cuda_model::grid_size((rows + kRows - 1) / kRows, "norm"),
             cuda_model::row_threads(in.width, N, kThreads), 0, stream>>>(in, rows);
      return;
    }
  }
  constexpr bool warps = std::is_same_v<Team, cuda_model::WarpTeam>;
  const std::int64_t teams = warps ? std::min(in.groups, kMostWarps) : 1;
  const unsigned threads =
      warps ? static_cast<unsigned>(teams * 32) : cuda_model::row_threads(in.width, N, kThreads);
  const std::int64_t blocks_per_row = (in.groups + teams - 1) / teams;
  norm_runs<T, N, Team, Centered>
      <<<cuda_model::grid_size(rows * blocks_per_row, "norm"), threads, 0, stream>>>(
          in, static_cast<unsigned>(blocks_per_row));
}

}  // namespace

void CudaModelOps::norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
                        const void* bias, const LayerNorm& norm) {
  if (x.rows == 0 || x.cols == 0) return;
  const std::int64_t width = x.cols / norm.groups;
  with_element(x.type, [&]<class T>(T) {
    constexpr int most = 16 / sizeof(T);
    const Forward<T> in{cuda_model::in<T>(y),
                        cuda_model::in<T>(x),
                        stats,
                        stats_given,
                        static_cast<const T*>(weight),
                        static_cast<const T*>(bias),
                        norm.epsilon,
                        norm.weight_offset,
                        norm.groups,
                        width};
    // Groups are whole vectors, so they start on a boundary where rows do. (Null does, too.)
    const bool vectors = cuda_model::can_vectorize(y, width, most) &&
                         cuda_model::can_vectorize(x, width, most) &&
                         cuda_model::can_vectorize(weight, 0, sizeof(T), width, most) &&
                         cuda_model::can_vectorize(bias, 0, sizeof(T), width, most);
    cuda_model::with_team(width, norm.groups, [&]<class Team>(Team) {
      cuda_model::with_kind(norm.kind, [&]<bool Centered>(std::bool_constant<Centered>) {
        vectors ? launch<T, most, Team, Centered>(in, x.rows, stream_)
                : launch<T, 1, Team, Centered>(in, x.rows, stream_);
      });
    });
  });
  cuda_model::check_launch("norm");
}

}  // namespace ebb::kernels
