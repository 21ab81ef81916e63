// Copies with a change of type, to the bit: weights and gradients pass here.
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

constexpr int kWidth = 8;  // 16 bytes of bf16, twice 16 of fp32

template <class D, class S, int N>
__global__ void convert_rows(Matrix<D> dst, Matrix<const S> src, std::int64_t cols,
                             unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  float value[N];
  cuda_model::load(value, src.row(row) + j);
  if constexpr (std::is_same_v<D, bf16> && N > 1) {
    cuda_model::Words<D, N> words;
#pragma unroll
    for (int e = 0; e < N; e += 2) {
      words.at[e / 2] = cuda_model::narrow<D>(value[e]).bits |
                        static_cast<unsigned>(cuda_model::narrow<D>(value[e + 1]).bits) << 16;
    }
    store_words(dst.row(row) + j, words.at);
  } else {
    cuda_model::Pack<D, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) pack.at[e] = cuda_model::narrow<D>(value[e]);
    *reinterpret_cast<cuda_model::Pack<D, N>*>(dst.row(row) + j) = pack;
  }
}

}  // namespace

void CudaModelOps::convert(View dst, ConstView src) {
  if (dst.rows == 0 || dst.cols == 0) return;
  with_element(dst.type, [&]<class D>(D) {
    with_element(src.type, [&]<class S>(S) {
      const auto launch = [&]<int N>(std::integral_constant<int, N>) {
        const cuda_model::RowGrid grid = cuda_model::row_grid(dst.rows, dst.cols, N);
        convert_rows<D, S, N><<<grid.blocks, grid.threads, 0, stream_>>>(
            cuda_model::in<D>(dst), cuda_model::in<S>(src), dst.cols, grid.blocks_per_row);
      };
      const bool vectors = cuda_model::can_vectorize(dst, dst.cols, kWidth) &&
                           cuda_model::can_vectorize(src, dst.cols, kWidth);
      vectors ? launch(std::integral_constant<int, kWidth>{})
              : launch(std::integral_constant<int, 1>{});
    });
  });
  cuda_model::check_launch("convert");
}

void CudaModelOps::fill_zero(void* data, Bytes bytes) {
  if (bytes == 0) return;
  cuda_model::check(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), stream_),
                    "fill_zero");
}

}  // namespace ebb::kernels
