// Cross entropy with its gradient. A row has a cluster of blocks where it is long, else a block:
// one pass finds the sum of exponentials with a running maximum in each thread, the second writes
// the gradient.
#include <algorithm>
#include <cfloat>

#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/cuda/model/loss_clusters.cuh"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::LossRows;
using cuda_model::Matrix;

constexpr unsigned kThreads = 512;
constexpr int kSumThreads = 1024;
constexpr Bytes kMostClusterBytes = 220 * kKiB;  // of a block

// dlogits may be logits' memory: a thread reads and writes its own columns, and the target's logit
// is read before the first barrier, which lies before every write.
template <class D, int N>
__global__ void cross_entropy_rows(Matrix<D> dlogits, Matrix<const float> logits, LossRows work) {
  __shared__ float parts[32];
  const std::int64_t row = blockIdx.x;
  const std::int64_t first = threadIdx.x * N, step = blockDim.x * N;
  const float* from = logits.row(row);
  D* to = dlogits.row(row);
  const std::int32_t target = work.targets[row];
  if (target < 0) {
    const float zeros[N] = {};
    for (std::int64_t j = first; j < work.cols; j += step) cuda_model::store(to + j, zeros);
    if (threadIdx.x == 0) work.losses[row] = 0;
    return;
  }
  const float target_logit = from[target];

  // Finite from the start, so that logits of minus infinity count as nothing and not as NaN.
  float largest = -FLT_MAX, total = 0;
  for (std::int64_t j = first; j < work.cols; j += step) {
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

  for (std::int64_t j = first; j < work.cols; j += step) {
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

// Whether the row is long, but not too long for the cluster's shared memory.
bool suits_clusters(View dlogits, ConstView logits) {
  constexpr int width = cuda_model::kClusterWidth;
  return dlogits.type == DType::bf16 && logits.cols >= cuda_model::kFewestClusterColumns &&
         cuda_model::cluster_share(logits.cols) * 4 <= kMostClusterBytes &&
         cuda_model::can_vectorize(dlogits, logits.cols, width) &&
         cuda_model::can_vectorize(logits, logits.cols, width);
}

void launch_clusters(View dlogits, ConstView logits, const LossRows& work, cudaStream_t stream) {
  const auto kernel = cuda_model::cross_entropy_clusters;
  const auto* const function = reinterpret_cast<const void*>(kernel);
  const std::int64_t share = cuda_model::cluster_share(logits.cols);
  const Bytes shared = share * 4;
  cuda_model::allow_shared(function, shared, "cross_entropy");
  cuda_model::check(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                         cudaSharedmemCarveoutMaxShared),
                    "cross_entropy");
  // As many clusters as run at once: who comes later would find rows that nobody asked for ahead.
  cudaLaunchConfig_t all{};
  all.gridDim = cuda_model::grid_size(logits.rows * cuda_model::kClusterBlocks, "cross_entropy");
  all.blockDim = cuda_model::kClusterThreads;
  all.dynamicSmemBytes = static_cast<std::size_t>(shared);
  int at_once = 0;
  cuda_model::check(cudaOccupancyMaxActiveClusters(&at_once, kernel, &all), "cross_entropy");
  const auto clusters = static_cast<unsigned>(std::clamp<std::int64_t>(at_once, 1, logits.rows));
  kernel<<<clusters * cuda_model::kClusterBlocks, cuda_model::kClusterThreads,
           static_cast<std::size_t>(shared), stream>>>(
      cuda_model::in<bf16>(dlogits), cuda_model::in<float>(logits), work, static_cast<int>(share));
}

}  // namespace

void CudaModelOps::cross_entropy(View dlogits, float* losses, ConstView logits,
                                 std::span<const std::int32_t> targets, float scale) {
  if (logits.rows == 0 || logits.cols == 0) return;
  if (suits_clusters(dlogits, logits)) {
    launch_clusters(dlogits, logits, {losses, targets.data(), scale, logits.rows, logits.cols},
                    stream_);
    cuda_model::check_launch("cross_entropy");
    return;
  }
  with_element(dlogits.type, [&]<class D>(D) {
    constexpr int width = 16 / sizeof(D);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      cross_entropy_rows<D, N><<<cuda_model::grid_size(logits.rows, "cross_entropy"),
                                 cuda_model::row_threads(logits.cols, N, kThreads), 0, stream_>>>(
          cuda_model::in<D>(dlogits), cuda_model::in<float>(logits),
          LossRows{losses, targets.data(), scale, logits.rows, logits.cols});
    };
    const bool vectors = cuda_model::can_vectorize(dlogits, logits.cols, width) &&
                         cuda_model::can_vectorize(logits, logits.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("cross_entropy");
}

void CudaModelOps::sum(double* total, const float* values, std::int64_t count) {
  sum_values<<<1, kSumThreads, 0, stream_>>>(total, values, count);
  cuda_model::check_launch("sum");
}

}  // namespace ebb::kernels
