// Cross entropy with its gradient, a block a row: one pass finds the sum of exponentials with a
// running maximum in each thread, the second writes the gradient.
#include <cfloat>

#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

constexpr unsigned kThreads = 512;
constexpr int kSumThreads = 1024;

struct LossRows {
  float* losses;
  const std::int32_t* targets;
  float scale;
  std::int64_t cols;
};

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

}  // namespace

void CudaModelOps::cross_entropy(View dlogits, float* losses, ConstView logits,
                                 std::span<const std::int32_t> targets, float scale) {
  if (logits.rows == 0 || logits.cols == 0) return;
  with_element(dlogits.type, [&]<class D>(D) {
    constexpr int width = 16 / sizeof(D);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      cross_entropy_rows<D, N><<<cuda_model::grid_size(logits.rows, "cross_entropy"),
                                 cuda_model::row_threads(logits.cols, N, kThreads), 0, stream_>>>(
          cuda_model::in<D>(dlogits), cuda_model::in<float>(logits),
          LossRows{losses, targets.data(), scale, logits.cols});
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
