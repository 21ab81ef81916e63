// Cross entropy with its gradient. A row in one piece has a block: one pass finds the sum of
// exponentials with a running maximum in each thread, the second writes the gradient. A row in
// several has a cluster of blocks where it can, else a block that takes one piece after the other;
// or a piece at a time is asked for, with the same bits.
#include <algorithm>
#include <cfloat>

#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/cuda/model/loss_clusters.cuh"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::kPieceThreads;
using cuda_model::LossRows;
using cuda_model::Matrix;
using cuda_model::PieceColumns;
using cuda_model::PieceMatrix;

constexpr unsigned kThreads = 512;
constexpr int kSumThreads = 1024;
constexpr Bytes kMostClusterBytes = 220 * kKiB;  // of a block

// dlogits may be logits' memory: a thread reads and writes its own columns, and the target's logit
// is read before the first barrier, which lies before every write.
template <class D, int N>
__global__ void cross_entropy_rows(Matrix<D> dlogits, Matrix<const float> logits, LossRows work,
                                   std::int64_t cols) {
  __shared__ float parts[32];
  const std::int64_t row = blockIdx.x;
  const std::int64_t first = threadIdx.x * N, step = blockDim.x * N;
  const float* from = logits.row(row);
  D* to = dlogits.row(row);
  const std::int32_t target = work.targets[row];
  if (target < 0) {
    const float zeros[N] = {};
    for (std::int64_t j = first; j < cols; j += step) cuda_model::store(to + j, zeros);
    if (threadIdx.x == 0) work.losses[row] = 0;
    return;
  }
  const float target_logit = from[target];

  // Finite from the start, so that logits of minus infinity count as nothing and not as NaN.
  float largest = -FLT_MAX, total = 0;
  for (std::int64_t j = first; j < cols; j += step) {
    float value[N];
    cuda_model::load(value, from + j);
    float top = value[0];
#pragma unroll
    for (int e = 1; e < N; ++e) top = fmaxf(top, value[e]);
    if (top > largest) {
      total *= expf(largest - top);
      largest = top;
    }
#pragma unroll
    for (int e = 0; e < N; ++e) total += expf(value[e] - largest);
  }
  const float row_largest = cuda_model::block_max(largest, parts);
  total = cuda_model::block_sum(total * expf(largest - row_largest), parts);
  const float log_total = logf(total), log_sum = row_largest + log_total;
  if (threadIdx.x == 0) work.losses[row] = (row_largest - target_logit) + log_total;

  for (std::int64_t j = first; j < cols; j += step) {
    float value[N];
    cuda_model::load(value, from + j);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      value[e] = (expf(value[e] - log_sum) - (j + e == target ? 1.0f : 0.0f)) * work.scale;
    }
    cuda_model::store(to + j, value);
  }
}

__global__ void sum_values(double* total, const float* values, std::int64_t count) {
  __shared__ double parts[32];
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += kSumThreads) sum += values[i];
  sum = cuda_model::block_sum(sum, parts);
  if (threadIdx.x == 0) *total = sum;
}

// A block has a row and takes one piece of it after the other. dlogits may be logits' memory: the
// target's logit is read before a barrier that lies before every write.
template <class D, bool kVectors>
__global__ void __launch_bounds__(kPieceThreads)
    cross_entropy_pieces(PieceMatrix<D> dlogits, PieceMatrix<const float> logits, LossRows work) {
  __shared__ float parts[32];
  __shared__ float2 sums[kMostPieces];
  const std::int64_t row = blockIdx.x;
  const std::int32_t target = work.targets[row];
  cuda_model::CombinedRow all{};
  if (threadIdx.x < kMostPieces) sums[threadIdx.x] = cuda_model::no_piece();
  __syncthreads();
  if (target >= 0) {
    const int its = target / logits.columns;
    const float target_logit = logits.row(row, its)[target - logits.begin(its)];
    for (int p = 0; p < logits.pieces; ++p) {
      const float* const from = logits.row(row, p);
      const auto mine =
          cuda_model::sum_columns<D, kVectors>(from, from, PieceColumns{logits.count(p)});
      const float2 sum = cuda_model::sum_of_block<D>(mine, parts);
      if (threadIdx.x == 0) sums[p] = sum;
    }
    __syncthreads();
    all = cuda_model::combine<D>([&](int p) { return sums[p]; });
    if (threadIdx.x == 0) work.losses[row] = all.loss(target_logit);
  } else if (threadIdx.x == 0) {
    work.losses[row] = 0;
  }
  for (int p = 0; p < logits.pieces; ++p) {
    cuda_model::write_gradients<D, kVectors>(
        dlogits.row(row, p), logits.row(row, p), PieceColumns{logits.count(p)},
        target - logits.begin(p), target >= 0, all, work.scale);
  }
}

template <class D, bool kVectors>
__global__ void __launch_bounds__(kPieceThreads)
    piece_statistics(RowStatistic* to, Matrix<const float> logits, PieceColumns piece,
                     const std::int32_t* targets, std::int64_t first) {
  __shared__ float parts[32];
  const std::int64_t row = blockIdx.x;
  const std::int32_t target = targets[row];
  if (target < 0) {
    if (threadIdx.x == 0) to[row] = {};
    return;
  }
  const float* const from = logits.row(row);
  const auto mine = cuda_model::sum_columns<D, kVectors>(from, from, piece);
  const float2 sum = cuda_model::sum_of_block<D>(mine, parts);
  if (threadIdx.x != 0) return;
  const std::int64_t here = target - first;
  const bool has_target = here >= 0 && here < piece.count;
  to[row] = {.total = sum.y, .largest = sum.x, .target = has_target ? from[here] : 0.0f};
}

template <class D>
__device__ cuda_model::CombinedRow combine_row(const RowStatistics& statistics, std::int64_t row) {
  return cuda_model::combine<D>([&](int p) {
    if (p >= statistics.pieces) return cuda_model::no_piece();
    const RowStatistic& each = statistics.first[p * statistics.distance + row];
    return float2{each.largest, static_cast<float>(each.total)};
  });
}

template <class D, bool kVectors>
__global__ void __launch_bounds__(kPieceThreads)
    piece_gradients(Matrix<D> dlogits, Matrix<const float> logits, PieceColumns piece,
                    RowStatistics statistics, const std::int32_t* targets, std::int64_t first,
                    float scale) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t target = targets[row];
  cuda_model::CombinedRow all{};
  if (target >= 0) all = combine_row<D>(statistics, row);
  cuda_model::write_gradients<D, kVectors>(dlogits.row(row), logits.row(row), piece,
                                           static_cast<int>(target - first), target >= 0, all,
                                           scale);
}

template <class D>
__global__ void piece_losses(float* losses, RowStatistics statistics, const std::int32_t* targets,
                             std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const std::int32_t target = targets[row];
  if (target < 0) {
    losses[row] = 0;
    return;
  }
  const std::int64_t its = target / statistics.columns;
  losses[row] = combine_row<D>(statistics, row)
                    .loss(statistics.first[its * statistics.distance + row].target);
}

template <class T, class V>
PieceMatrix<T> in_pieces(const InPieces<V>& pieces) {
  const auto first = cuda_model::in<std::remove_const_t<T>>(pieces.first);
  return {first.data,  first.stride,  pieces.distance, static_cast<int>(pieces.first.cols),
          pieces.cols, pieces.count()};
}

// Whether packs of a row's piece lie at multiples of their size, in what is read and what is
// written.
bool packs_fit(const void* data, DType type, std::int64_t stride, std::int64_t distance) {
  const Bytes pack = cuda_model::kPieceWidth * size_of(type);
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(pack) == 0 &&
         stride % cuda_model::kPieceWidth == 0 && distance % cuda_model::kPieceWidth == 0;
}
bool packs_fit(ConstView view, std::int64_t distance = 0) {
  return packs_fit(view.data, view.type, view.stride, distance);
}

// Calls run(D, whether packs fit).
template <class Run>
void with_packs(DType type, bool fit, const Run& run) {
  with_element(type,
               [&]<class D>(D d) { fit ? run(d, std::true_type{}) : run(d, std::false_type{}); });
}

// Whether the row's pieces are not too long for the shared memory of a cluster's blocks.
bool suits_clusters(const Pieces& dlogits, const ConstPieces& logits) {
  return dlogits.first.type == DType::bf16 && logits.first.cols * 4 <= kMostClusterBytes &&
         packs_fit(dlogits.first, dlogits.distance) && packs_fit(logits.first, logits.distance);
}

void launch_clusters(const Pieces& dlogits, const ConstPieces& logits, const LossRows& work,
                     cudaStream_t stream) {
  const auto kernel = cuda_model::cross_entropy_clusters;
  const auto* const function = reinterpret_cast<const void*>(kernel);
  const Bytes shared = logits.first.cols * 4;
  cuda_model::allow_shared(function, shared, "cross_entropy");
  cuda_model::check(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                         cudaSharedmemCarveoutMaxShared),
                    "cross_entropy");
  // As many clusters as run at once: a later one would find rows that no other had fetched ahead.
  cudaLaunchConfig_t all{};
  all.gridDim = cuda_model::grid_size(work.rows * kMostPieces, "cross_entropy");
  all.blockDim = kPieceThreads;
  all.dynamicSmemBytes = static_cast<std::size_t>(shared);
  int at_once = 0;
  cuda_model::check(cudaOccupancyMaxActiveClusters(&at_once, kernel, &all), "cross_entropy");
  const auto clusters = static_cast<unsigned>(std::clamp<std::int64_t>(at_once, 1, work.rows));
  kernel<<<clusters * kMostPieces, kPieceThreads, static_cast<std::size_t>(shared), stream>>>(
      in_pieces<bf16>(dlogits), in_pieces<const float>(logits), work);
}

void launch_pieces(const Pieces& dlogits, const ConstPieces& logits, const LossRows& work,
                   cudaStream_t stream) {
  if (suits_clusters(dlogits, logits)) return launch_clusters(dlogits, logits, work, stream);
  const bool fit =
      packs_fit(dlogits.first, dlogits.distance) && packs_fit(logits.first, logits.distance);
  with_packs(dlogits.first.type, fit, [&]<class D, bool kFit>(D, std::bool_constant<kFit>) {
    cross_entropy_pieces<D, kFit>
        <<<cuda_model::grid_size(work.rows, "cross_entropy"), kPieceThreads, 0, stream>>>(
            in_pieces<D>(dlogits), in_pieces<const float>(logits), work);
  });
}

void launch_rows(View dlogits, ConstView logits, const LossRows& work, cudaStream_t stream) {
  with_element(dlogits.type, [&]<class D>(D) {
    constexpr int width = 16 / sizeof(D);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      cross_entropy_rows<D, N><<<cuda_model::grid_size(logits.rows, "cross_entropy"),
                                 cuda_model::row_threads(logits.cols, N, kThreads), 0, stream>>>(
          cuda_model::in<D>(dlogits), cuda_model::in<float>(logits), work, logits.cols);
    };
    const bool vectors = cuda_model::can_vectorize(dlogits, logits.cols, width) &&
                         cuda_model::can_vectorize(logits, logits.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
}

}  // namespace

void CudaModelOps::cross_entropy(const Pieces& dlogits, float* losses, const ConstPieces& logits,
                                 std::span<const std::int32_t> targets, float scale) {
  if (logits.first.rows == 0 || logits.cols == 0) return;
  const LossRows work{losses, targets.data(), scale, logits.first.rows};
  logits.count() == 1 ? launch_rows(dlogits.first, logits.first, work, stream_)
                      : launch_pieces(dlogits, logits, work, stream_);
  cuda_model::check_launch("cross_entropy");
}

void CudaModelOps::row_statistics(RowStatistic* to, const RowPiece& piece,
                                  std::span<const std::int32_t> targets, DType type) {
  const ConstView logits = piece.logits;
  if (logits.rows == 0) return;
  with_packs(type, packs_fit(logits), [&]<class D, bool kFit>(D, std::bool_constant<kFit>) {
    piece_statistics<D, kFit>
        <<<cuda_model::grid_size(logits.rows, "row_statistics"), kPieceThreads, 0, stream_>>>(
            to, cuda_model::in<float>(logits), PieceColumns{static_cast<int>(logits.cols)},
            targets.data(), piece.first);
  });
  cuda_model::check_launch("row_statistics");
}

void CudaModelOps::row_losses(float* losses, const RowStatistics& statistics,
                              std::span<const std::int32_t> targets, DType type) {
  const auto rows = static_cast<std::int64_t>(targets.size());
  if (rows == 0) return;
  constexpr unsigned threads = 128;
  with_element(type, [&]<class D>(D) {
    piece_losses<D><<<cuda_model::grid_size((rows + threads - 1) / threads, "row_losses"), threads,
                      0, stream_>>>(losses, statistics, targets.data(), rows);
  });
  cuda_model::check_launch("row_losses");
}

void CudaModelOps::row_gradients(View dlogits, const RowPiece& piece,
                                 const RowStatistics& statistics,
                                 std::span<const std::int32_t> targets, float scale) {
  const ConstView logits = piece.logits;
  if (logits.rows == 0) return;
  const bool fit = packs_fit(logits) && packs_fit(dlogits);
  with_packs(dlogits.type, fit, [&]<class D, bool kFit>(D, std::bool_constant<kFit>) {
    piece_gradients<D, kFit>
        <<<cuda_model::grid_size(logits.rows, "row_gradients"), kPieceThreads, 0, stream_>>>(
            cuda_model::in<D>(dlogits), cuda_model::in<float>(logits),
            PieceColumns{static_cast<int>(logits.cols)}, statistics, targets.data(), piece.first,
            scale);
  });
  cuda_model::check_launch("row_gradients");
}

void CudaModelOps::sum(double* total, const float* values, std::int64_t count) {
  sum_values<<<1, kSumThreads, 0, stream_>>>(total, values, count);
  cuda_model::check_launch("sum");
}

}  // namespace ebb::kernels
