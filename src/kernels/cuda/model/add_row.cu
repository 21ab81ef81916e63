// One row added to every row, one pack of columns a thread.
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

template <class T, int N>
__global__ void add_to_rows(cuda_model::Matrix<T> x, const T* added, std::int64_t cols,
                            unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  float value[N], more[N];
  cuda_model::load(value, x.row(row) + j);
  cuda_model::load(more, added + j);
#pragma unroll
  for (int e = 0; e < N; ++e) value[e] += more[e];
  cuda_model::store(x.row(row) + j, value);
}

}  // namespace

void CudaModelOps::add_row(View x, const void* row) {
  if (x.rows == 0 || x.cols == 0) return;
  with_element(x.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      const cuda_model::RowGrid grid = cuda_model::row_grid(x.rows, x.cols, N);
      add_to_rows<T, N><<<grid.blocks, grid.threads, 0, stream_>>>(
          cuda_model::in<T>(x), static_cast<const T*>(row), x.cols, grid.blocks_per_row);
    };
    const bool vectors = cuda_model::can_vectorize(x, x.cols, width) &&
                         cuda_model::can_vectorize(row, 0, sizeof(T), x.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("add_row");
}

}  // namespace ebb::kernels
