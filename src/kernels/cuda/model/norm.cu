// Root-mean-square normalisation. Forward: a block a row. Backward: a block a fixed run of rows,
// whose part of dweight stays in shared memory until it is written out for the second pass.
#include <algorithm>

#include "kernels/cuda/model/column_partials.h"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

constexpr unsigned kThreads = 512;
// Two or more blocks for each multiprocessor of large devices.
constexpr std::int64_t kMostBlocks = 528;
constexpr std::int64_t kFewestRows = 4;

template <class T, int N>
__global__ void norm_rows(Matrix<T> y, float* rstd, bool rstd_given, Matrix<const T> x,
                          const T* weight, float epsilon, std::int64_t cols) {
  __shared__ float parts[32];
  const std::int64_t row = blockIdx.x;
  const std::int64_t first = threadIdx.x * N, step = blockDim.x * N;
  const T* from = x.row(row);
  float scale;
  if (rstd_given) {
    scale = rstd[row];
  } else {
    float squares = 0;
    for (std::int64_t j = first; j < cols; j += step) {
      float value[N];
      cuda_model::load(value, from + j);
#pragma unroll
      for (int e = 0; e < N; ++e) squares = fmaf(value[e], value[e], squares);
    }
    squares = cuda_model::block_sum(squares, parts);
    scale = 1.0f / sqrtf(squares / static_cast<float>(cols) + epsilon);
    if (threadIdx.x == 0) rstd[row] = scale;
  }
  T* to = y.row(row);
  for (std::int64_t j = first; j < cols; j += step) {
    float value[N], gain[N];
    cuda_model::load(value, from + j);
    cuda_model::load(gain, weight + j);
#pragma unroll
    for (int e = 0; e < N; ++e) value[e] = value[e] * scale * gain[e];
    cuda_model::store(to + j, value);
  }
}

struct BackwardRows {
  const float* rstd;
  float* partials;  // [blocks][cols]
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t rows_per_block;
};

template <class T, int N>
__global__ void norm_backward_rows(Matrix<T> dx, Matrix<const T> dy, Matrix<const T> x,
                                   const T* weight, BackwardRows work) {
  extern __shared__ __align__(16) float dweight[];
  __shared__ float parts[32];
  const std::int64_t first = threadIdx.x * N, step = blockDim.x * N;
  // Each thread has its own columns throughout, so dweight needs no synchronisation.
  for (std::int64_t j = first; j < work.cols; j += step) {
    const float zeros[N] = {};
    cuda_model::store(dweight + j, zeros);
  }
  const std::int64_t begin = blockIdx.x * work.rows_per_block;
  const std::int64_t end = min(work.rows, begin + work.rows_per_block);
  for (std::int64_t row = begin; row < end; ++row) {
    const float scale = work.rstd[row];
    float mean = 0;
    for (std::int64_t j = first; j < work.cols; j += step) {
      float slope[N], value[N], gain[N], sum[N];
      cuda_model::load(slope, dy.row(row) + j);
      cuda_model::load(value, x.row(row) + j);
      cuda_model::load(gain, weight + j);
      cuda_model::load(sum, dweight + j);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float xhat = value[e] * scale;
        mean = fmaf(slope[e] * gain[e], xhat, mean);
        sum[e] = fmaf(slope[e], xhat, sum[e]);
      }
      cuda_model::store(dweight + j, sum);
    }
    mean = cuda_model::block_sum(mean, parts) / static_cast<float>(work.cols);
    for (std::int64_t j = first; j < work.cols; j += step) {
      float slope[N], value[N], gain[N], out[N];
      cuda_model::load(slope, dy.row(row) + j);
      cuda_model::load(value, x.row(row) + j);
      cuda_model::load(gain, weight + j);
      cuda_model::load(out, dx.row(row) + j);
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float inner = fmaf(-value[e] * scale, mean, slope[e] * gain[e]);
        out[e] = fmaf(scale, inner, out[e]);
      }
      cuda_model::store(dx.row(row) + j, out);
    }
  }
  for (std::int64_t j = first; j < work.cols; j += step) {
    float sum[N];
    cuda_model::load(sum, dweight + j);
    cuda_model::store(work.partials + blockIdx.x * work.cols + j, sum);
  }
}

}  // namespace

void CudaModelOps::rms_norm(View y, float* rstd, bool rstd_given, ConstView x, const void* weight,
                            float epsilon) {
  if (x.rows == 0 || x.cols == 0) return;
  with_element(x.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      norm_rows<T, N><<<cuda_model::grid_size(x.rows, "rms_norm"),
                        cuda_model::row_threads(x.cols, N, kThreads), 0, stream_>>>(
          cuda_model::in<T>(y), rstd, rstd_given, cuda_model::in<T>(x),
          static_cast<const T*>(weight), epsilon, x.cols);
    };
    const bool vectors = cuda_model::can_vectorize(y, x.cols, width) &&
                         cuda_model::can_vectorize(x, x.cols, width) &&
                         cuda_model::can_vectorize(weight, 0, sizeof(T), x.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("rms_norm");
}

void CudaModelOps::rms_norm_backward(View dx, void* dweight, DType dweight_type, ConstView dy,
                                     ConstView x, const float* rstd, const void* weight) {
  if (x.cols == 0) return;
  const std::int64_t most = std::min(kMostBlocks, kWorkspace / (x.cols * 4));
  const std::int64_t rows_per_block =
      std::max(kFewestRows, (x.rows + most - 1) / std::max<std::int64_t>(1, most));
  const std::int64_t blocks = (x.rows + rows_per_block - 1) / rows_per_block;
  const auto partials = reinterpret_cast<float*>(scratch(blocks * x.cols * 4, "rms_norm_backward"));
  if (blocks > 0) {
    with_element(x.type, [&]<class T>(T) {
      constexpr int width = 16 / sizeof(T);
      const auto launch = [&]<int N>(std::integral_constant<int, N>) {
        const Bytes shared = x.cols * 4;
        cuda_model::allow_shared(reinterpret_cast<const void*>(norm_backward_rows<T, N>), shared,
                                 "rms_norm_backward");
        norm_backward_rows<T, N><<<cuda_model::grid_size(blocks, "rms_norm_backward"),
                                   cuda_model::row_threads(x.cols, N, kThreads),
                                   static_cast<std::size_t>(shared), stream_>>>(
            cuda_model::in<T>(dx), cuda_model::in<T>(dy), cuda_model::in<T>(x),
            static_cast<const T*>(weight), {rstd, partials, x.rows, x.cols, rows_per_block});
      };
      const bool vectors = cuda_model::can_vectorize(dx, x.cols, width) &&
                           cuda_model::can_vectorize(dy, x.cols, width) &&
                           cuda_model::can_vectorize(x, x.cols, width) &&
                           cuda_model::can_vectorize(weight, 0, sizeof(T), x.cols, width);
      vectors ? launch(std::integral_constant<int, width>{})
              : launch(std::integral_constant<int, 1>{});
    });
    cuda_model::check_launch("rms_norm_backward");
  }
  cuda_model::add_partials(dweight, dweight_type, partials, blocks, x.cols, stream_);
}

}  // namespace ebb::kernels
