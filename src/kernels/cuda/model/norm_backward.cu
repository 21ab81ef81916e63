// Normalisation, backward: a block has a fixed run of groups, whose parts of dweight and dbias stay
// in shared memory, team by team, until they are added in order and written out for the second
// pass.
#include <algorithm>

#include "kernels/cuda/model/column_partials.h"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/launch.h"
#include "kernels/cuda/model/norm_teams.cuh"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;
using cuda_model::RunStats;

constexpr unsigned kThreads = 512;
// Two or more blocks for each multiprocessor of large devices.
constexpr std::int64_t kMostBlocks = 528;
constexpr std::int64_t kFewestRuns = 4;  // of a team

template <class T>
struct Backward {
  Matrix<T> dx;
  Matrix<const T> dy, x;
  bool add;
  const float* stats;
  const T* weight;
  float weight_offset;
  float* partials;       // [blocks][width]
  float* bias_partials;  // likewise, or null
  std::int64_t runs, groups, width;
  std::int64_t runs_per_block;
};

// A thread reads and writes its own columns alone, first all that a column needs and then dx: so dx
// may be dy's memory, and the sums need no synchronisation until teams meet.
template <class T, int N, class Team, bool Centered>
__global__ void norm_backward_runs(Backward<T> in) {
  extern __shared__ __align__(16) float sums[];  // [teams][width] of dweight, then of dbias
  __shared__ float parts[32];
  const std::int64_t width = in.width, teams = Team::count();
  const std::int64_t first = Team::rank() * N, step = Team::size() * N;
  float* const dweight = sums + Team::index() * width;
  float* const dbias = dweight + teams * width;
  for (std::int64_t j = first; j < width; j += step) {
    const float zeros[N] = {};
    cuda_model::store(dweight + j, zeros);
    if (in.bias_partials != nullptr) cuda_model::store(dbias + j, zeros);
  }
  const std::int64_t begin = blockIdx.x * in.runs_per_block + Team::index();
  const std::int64_t end = min(in.runs, (blockIdx.x + 1) * in.runs_per_block);
  const std::int64_t rows_on = teams / in.groups, groups_on = teams % in.groups;
  std::int64_t row = begin / in.groups, group = begin % in.groups;
  for (std::int64_t run = begin; run < end; run += teams) {
    const RunStats stats = cuda_model::read_stats<Centered>(in.stats, run);
    const std::int64_t column = group * width;
    const T* const slopes = in.dy.row(row) + column;
    const T* const values = in.x.row(row) + column;
    T* const to = in.dx.row(row) + column;
    float shift = 0, mean = 0;  // the means of g and of g * xhat, with g = dy * weight
    for (std::int64_t j = first; j < width; j += step) {
      float slope[N], value[N], gain[N], sum[N];
      cuda_model::load(slope, slopes + j);
      cuda_model::load(value, values + j);
      cuda_model::load_gain(gain, in.weight + j, in.weight_offset);
      cuda_model::load(sum, dweight + j);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float xhat = (value[e] - stats.mean) * stats.rstd;
        if constexpr (Centered) shift = fmaf(slope[e], gain[e], shift);
        mean = fmaf(slope[e] * gain[e], xhat, mean);
        sum[e] = fmaf(slope[e], xhat, sum[e]);
      }
      cuda_model::store(dweight + j, sum);
      if (in.bias_partials != nullptr) {
        cuda_model::load(sum, dbias + j);
#pragma unroll
        for (int e = 0; e < N; ++e) sum[e] += slope[e];
        cuda_model::store(dbias + j, sum);
      }
    }
    if constexpr (Centered) shift = Team::sum(shift, parts) / static_cast<float>(width);
    mean = Team::sum(mean, parts) / static_cast<float>(width);
    for (std::int64_t j = first; j < width; j += step) {
      float slope[N], value[N], gain[N], out[N] = {};
      cuda_model::load(slope, slopes + j);
      cuda_model::load(value, values + j);
      cuda_model::load_gain(gain, in.weight + j, in.weight_offset);
      if (in.add) cuda_model::load(out, to + j);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        float inner = fmaf(-(value[e] - stats.mean) * stats.rstd, mean, slope[e] * gain[e]);
        if constexpr (Centered) inner -= shift;
        out[e] = fmaf(stats.rstd, inner, out[e]);
      }
      cuda_model::store(to + j, out);
    }
    row += rows_on, group += groups_on;
    if (group >= in.groups) group -= in.groups, ++row;
  }

  __syncthreads();
  const auto write = [&](float* partials, const float* of_teams) {
    for (std::int64_t j = threadIdx.x * N; j < width; j += blockDim.x * N) {
      float total[N];
      cuda_model::load(total, of_teams + j);
      for (std::int64_t team = 1; team < teams; ++team) {
        float part[N];
        cuda_model::load(part, of_teams + team * width + j);
#pragma unroll
        for (int e = 0; e < N; ++e) total[e] += part[e];
      }
      cuda_model::store(partials + blockIdx.x * width + j, total);
    }
  };
  write(in.partials, sums);
  if (in.bias_partials != nullptr) write(in.bias_partials, sums + teams * width);
}

// The values of a row that a thread reads.
template <class T, int N>
struct RowPacks {
  cuda_model::Words<T, N> slope, value, out;
  RunStats stats;
};

// The same, to the bit, for rows of which every thread of a block has one pack: weights and sums
// stay in registers, and a row is on its way while the one before is summed.
template <class T, int N, bool Centered, bool Biased>
__global__ void __launch_bounds__(kThreads, 2) norm_backward_rows(Backward<T> in) {
  __shared__ float parts[2][2][32];  // by row, of shift and mean
  const std::int64_t j = threadIdx.x * N;
  const bool mine = j < in.width;
  const std::int64_t begin = blockIdx.x * in.runs_per_block;
  const std::int64_t end = min(in.runs, begin + in.runs_per_block);
  float gain[N] = {}, dweight[N] = {}, dbias[N] = {};
  if (mine) cuda_model::load_gain(gain, in.weight + j, in.weight_offset);
  const auto read = [&](std::int64_t row) {
    RowPacks<T, N> packs = {};
    packs.stats = cuda_model::read_stats<Centered>(in.stats, row);
    if (!mine) return packs;
    packs.slope = cuda_model::load_words<T, N>(in.dy.row(row) + j);
    packs.value = cuda_model::load_words<T, N>(in.x.row(row) + j);
    if (in.add) packs.out = cuda_model::load_words<T, N>(in.dx.row(row) + j);
    return packs;
  };
  // Warps in order, as block_sum; the next row's sums lie elsewhere, so one barrier is enough.
  const auto sum = [&](float value, float* of_row) {
    value = cuda_model::warp_sum(value);
    if (threadIdx.x % 32 == 0) of_row[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += of_row[warp];
    return total / static_cast<float>(in.width);
  };
  RowPacks<T, N> next = read(begin);
  for (std::int64_t row = begin; row < end; ++row) {
    const RowPacks<T, N> now = next;
    if (row + 1 < end) next = read(row + 1);
    const RunStats stats = now.stats;
    float shift = 0, mean = 0;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float slope = cuda_model::element<T, N>(now.slope, e);
      const float xhat = (cuda_model::element<T, N>(now.value, e) - stats.mean) * stats.rstd;
      if constexpr (Centered) shift = fmaf(slope, gain[e], shift);
      mean = fmaf(slope * gain[e], xhat, mean);
      dweight[e] = fmaf(slope, xhat, dweight[e]);
      if constexpr (Biased) dbias[e] += slope;
    }
    if constexpr (Centered) shift = sum(shift, parts[row % 2][0]);
    mean = sum(mean, parts[row % 2][1]);
    if (!mine) continue;
    float out[N];
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float slope = cuda_model::element<T, N>(now.slope, e);
      const float value = cuda_model::element<T, N>(now.value, e);
      float inner = fmaf(-(value - stats.mean) * stats.rstd, mean, slope * gain[e]);
      if constexpr (Centered) inner -= shift;
      out[e] = fmaf(stats.rstd, inner, in.add ? cuda_model::element<T, N>(now.out, e) : 0.0f);
    }
    cuda_model::store(in.dx.row(row) + j, out);
  }
  if (!mine) return;
  cuda_model::store(in.partials + blockIdx.x * in.width + j, dweight);
  if constexpr (Biased) {
    cuda_model::store(in.bias_partials + blockIdx.x * in.width + j, dbias);
  }
}

template <class T, int N, class Team, bool Centered>
void launch(const Backward<T>& in, std::int64_t blocks, std::int64_t teams, cudaStream_t stream) {
  if constexpr (std::is_same_v<Team, cuda_model::BlockTeam> && N > 1) {
    if (in.groups == 1 && in.width <= kThreads * N) {
      const auto kernel = in.bias_partials != nullptr ? norm_backward_rows<T, N, Centered, true>
                                                      : norm_backward_rows<T, N, Centered, false>;
      const unsigned threads = cuda_model::row_threads(in.width, N, kThreads);
      kernel<<<cuda_model::grid_size(blocks, "norm_backward"), threads, 0, stream>>>(in);
      return;
    }
  }
  const Bytes shared = teams * in.width * 4 * (in.bias_partials != nullptr ? 2 : 1);
  const unsigned threads = std::is_same_v<Team, cuda_model::WarpTeam>
                               ? static_cast<unsigned>(teams * 32)
                               : cuda_model::row_threads(in.width, N, kThreads);
  cuda_model::allow_shared(reinterpret_cast<const void*>(norm_backward_runs<T, N, Team, Centered>),
                           shared, "norm_backward");
  norm_backward_runs<T, N, Team, Centered>
      <<<cuda_model::grid_size(blocks, "norm_backward"), threads, static_cast<std::size_t>(shared),
         stream>>>(in);
}

}  // namespace

void CudaModelOps::norm_backward(const NormGradients& to, ConstView dy, ConstView x,
                                 const float* stats, const void* weight, const LayerNorm& norm) {
  if (x.cols == 0) return;
  const std::int64_t groups = norm.groups, width = x.cols / groups, runs = x.rows * groups;
  const std::int64_t matrices = to.dbias != nullptr ? 2 : 1;
  const std::int64_t most =
      std::max<std::int64_t>(1, std::min(kMostBlocks, kWorkspace / (width * 4 * matrices)));
  cuda_model::with_team(width, groups, [&]<class Team>(Team) {
    constexpr std::int64_t teams = std::is_same_v<Team, cuda_model::WarpTeam> ? kThreads / 32 : 1;
    const std::int64_t runs_per_block = std::max(kFewestRuns * teams, (runs + most - 1) / most);
    const std::int64_t blocks = (runs + runs_per_block - 1) / runs_per_block;
    const auto partials =
        reinterpret_cast<float*>(scratch(blocks * width * 4 * matrices, "norm_backward"));
    float* const bias_partials = to.dbias != nullptr ? partials + blocks * width : nullptr;
    if (blocks > 0) {
      with_element(x.type, [&]<class T>(T) {
        constexpr int vector = 16 / sizeof(T);
        const Backward<T> in{cuda_model::in<T>(to.dx),
                             cuda_model::in<T>(dy),
                             cuda_model::in<T>(x),
                             to.add,
                             stats,
                             static_cast<const T*>(weight),
                             norm.weight_offset,
                             partials,
                             bias_partials,
                             runs,
                             groups,
                             width,
                             runs_per_block};
        const bool vectors = cuda_model::can_vectorize(to.dx, width, vector) &&
                             cuda_model::can_vectorize(dy, width, vector) &&
                             cuda_model::can_vectorize(x, width, vector) &&
                             cuda_model::can_vectorize(weight, 0, sizeof(T), width, vector);
        cuda_model::with_kind(norm.kind, [&]<bool Centered>(std::bool_constant<Centered>) {
          vectors ? launch<T, vector, Team, Centered>(in, blocks, teams, stream_)
                  : launch<T, 1, Team, Centered>(in, blocks, teams, stream_);
        });
      });
      cuda_model::check_launch("norm_backward");
    }
    cuda_model::add_partials(to.dweight, to.type, partials, blocks, width, stream_);
    if (to.dbias != nullptr) {
      cuda_model::add_partials(to.dbias, to.type, bias_partials, blocks, width, stream_);
    }
  });
}

}  // namespace ebb::kernels
