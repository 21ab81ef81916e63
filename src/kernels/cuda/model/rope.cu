// Rotary positions in place: a thread turns one pack of pairs.
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

template <class T, int N>
__global__ void rope_rows(Matrix<T> x, const float* table, ModelOps::RopeShape shape,
                          unsigned blocks_per_row) {
  // All of these fit into 32 bits, in which a division costs a quarter.
  const unsigned row = blockIdx.x / blocks_per_row;
  // Pairs of a row, counted over all heads.
  const unsigned pair = (blockIdx.x % blocks_per_row * blockDim.x + threadIdx.x) * N;
  const auto half = static_cast<unsigned>(shape.head_dim / 2);
  if (pair >= shape.heads * half) return;
  const unsigned head = pair / half, j = pair % half;
  const std::int64_t position = shape.start + row % static_cast<unsigned>(shape.length);
  T* left_at = x.row(row) + head * shape.head_dim + j;
  T* right_at = left_at + half;
  float left[N], right[N], turn[2 * N];
  cuda_model::load(left, left_at);
  cuda_model::load(right, right_at);
  cuda_model::load(turn, table + (position * half + j) * 2);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const float cosine = turn[2 * e], sine = shape.inverse ? -turn[2 * e + 1] : turn[2 * e + 1];
    const float a = left[e], b = right[e];
    left[e] = fmaf(a, cosine, -(b * sine));
    right[e] = fmaf(b, cosine, a * sine);
  }
  cuda_model::store(left_at, left);
  cuda_model::store(right_at, right);
}

}  // namespace

void CudaModelOps::rope(View x, const float* table, const RopeShape& shape) {
  const std::int64_t half = shape.head_dim / 2, pairs = shape.heads * half;
  if (x.rows == 0 || pairs == 0) return;
  with_element(x.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      const cuda_model::RowGrid grid = cuda_model::row_grid(x.rows, pairs, N);
      rope_rows<T, N><<<grid.blocks, grid.threads, 0, stream_>>>(cuda_model::in<T>(x), table, shape,
                                                                 grid.blocks_per_row);
    };
    const bool vectors = cuda_model::can_vectorize(x, half, width) &&
                         cuda_model::can_vectorize(table, half * 2, sizeof(float), half, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("rope");
}

}  // namespace ebb::kernels
