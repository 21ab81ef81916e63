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

template <class T, int N, class Team, bool Centered>
void launch(const Forward<T>& in, std::int64_t rows, cudaStream_t stream) {
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
                        const void* bias, const Norm& norm) {
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
