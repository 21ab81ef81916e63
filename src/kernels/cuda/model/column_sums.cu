// Sums of columns in two passes: runs of rows into partial sums, then those in order.
#include <algorithm>

#include "kernels/cuda/model/column_partials.h"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

constexpr int kColumns = 32;  // of a block in the second pass: a warp's worth
constexpr int kGroups = 8;    // runs of rows that a block adds side by side
constexpr int kFirstThreads = 128;
constexpr std::int64_t kMostRuns = 256;
constexpr std::int64_t kFewestRows = 16;

template <class T, int N>
__global__ void sum_run(float* partials, Matrix<const T> x, std::int64_t rows, std::int64_t cols,
                        std::int64_t rows_per_run) {
  const std::int64_t j = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  const std::int64_t begin = blockIdx.y * rows_per_run;
  const std::int64_t end = min(rows, begin + rows_per_run);
  float sum[N] = {};
#pragma unroll 8
  for (std::int64_t i = begin; i < end; ++i) {
    float value[N];
    cuda_model::load(value, x.row(i) + j);
#pragma unroll
    for (int e = 0; e < N; ++e) sum[e] += value[e];
  }
  cuda_model::store(partials + blockIdx.y * cols + j, sum);
}

template <class Out>
__global__ void add_columns(Out* out, const float* partials, std::int64_t rows, std::int64_t cols) {
  __shared__ float groups[kGroups][kColumns];
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t rows_per_group = (rows + kGroups - 1) / kGroups;
  const std::int64_t begin = threadIdx.y * rows_per_group;
  const std::int64_t end = min(rows, begin + rows_per_group);
  float sum = 0;
  if (j < cols) {
#pragma unroll 8
    for (std::int64_t i = begin; i < end; ++i) sum += partials[i * cols + j];
  }
  groups[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || j >= cols) return;
  float total = 0;
  for (int group = 0; group < kGroups; ++group) total += groups[group][threadIdx.x];
  out[j] = cuda_model::narrow<Out>(total);
}

}  // namespace

namespace cuda_model {

void add_partials(void* out, DType type, const float* partials, std::int64_t rows,
                  std::int64_t cols, cudaStream_t stream) {
  if (cols == 0) return;
  const unsigned blocks = grid_size((cols + kColumns - 1) / kColumns, "add_partials");
  with_element(type, [&]<class Out>(Out) {
    add_columns<<<blocks, dim3(kColumns, kGroups), 0, stream>>>(static_cast<Out*>(out), partials,
                                                                rows, cols);
  });
  check_launch("add_partials");
}

}  // namespace cuda_model

void CudaModelOps::column_sums(void* out, DType type, ConstView x) {
  if (x.cols == 0) return;
  const std::int64_t most =
      std::max<std::int64_t>(1, std::min(kMostRuns, kWorkspace / (x.cols * 4)));
  const std::int64_t rows_per_run = std::max(kFewestRows, (x.rows + most - 1) / most);
  const std::int64_t runs = (x.rows + rows_per_run - 1) / rows_per_run;
  const auto partials = reinterpret_cast<float*>(scratch(runs * x.cols * 4, "column_sums"));
  if (runs > 0) {
    with_element(x.type, [&]<class T>(T) {
      constexpr int width = 16 / sizeof(T);
      const auto launch = [&]<int N>(std::integral_constant<int, N>) {
        constexpr std::int64_t columns = kFirstThreads * N;
        const unsigned blocks =
            cuda_model::grid_size((x.cols + columns - 1) / columns, "column_sums");
        sum_run<T, N><<<dim3(blocks, static_cast<unsigned>(runs)), kFirstThreads, 0, stream_>>>(
            partials, cuda_model::in<T>(x), x.rows, x.cols, rows_per_run);
      };
      cuda_model::can_vectorize(x, x.cols, width) ? launch(std::integral_constant<int, width>{})
                                                  : launch(std::integral_constant<int, 1>{});
    });
    cuda_model::check_launch("column_sums");
  }
  cuda_model::add_partials(out, type, partials, runs, x.cols, stream_);
}

}  // namespace ebb::kernels
