// 64 x 64 tiles of c, 16 deep, in fp32; a thread has 4 x 4 elements, 16 apart each way.
#include "kernels/cuda/model/matmul_tiles.h"

#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr int kTile = 64;
constexpr int kDepth = 16;
constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kEach = kTile / kSide;

template <class C>
struct Product {
  std::int64_t rows, cols, depth;
  bool transpose_a, transpose_b;
  const C* bias;
  const C* addend;
};

template <class C, class T>
__global__ void multiply(Matrix<C> c, Matrix<const T> a, Matrix<const T> b, Product<C> product,
                         unsigned tiles_per_row) {
  __shared__ float left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x / tiles_per_row) * kTile;
  const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.x % tiles_per_row) * kTile;
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  float sum[kEach][kEach] = {};
  for (std::int64_t base = 0; base < product.depth; base += kDepth) {
    for (int at = threadIdx.x; at < kTile * kDepth; at += kThreads) {
      // Neighbouring threads read neighbouring elements.
      const int a_row = product.transpose_a ? at % kTile : at / kDepth;
      const int a_depth = product.transpose_a ? at / kTile : at % kDepth;
      const int b_col = product.transpose_b ? at / kDepth : at % kTile;
      const int b_depth = product.transpose_b ? at % kDepth : at / kTile;
      const std::int64_t i = first_row + a_row, ka = base + a_depth;
      const std::int64_t j = first_col + b_col, kb = base + b_depth;
      left[a_depth][a_row] = i < product.rows && ka < product.depth
                                 ? widen(product.transpose_a ? a.row(ka)[i] : a.row(i)[ka])
                                 : 0.0f;
      right[b_depth][b_col] = j < product.cols && kb < product.depth
                                  ? widen(product.transpose_b ? b.row(j)[kb] : b.row(kb)[j])
                                  : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      float l[kEach], r[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) l[e] = left[k][y + kSide * e], r[e] = right[k][x + kSide * e];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int ei = 0; ei < kEach; ++ei) {
#pragma unroll
    for (int ej = 0; ej < kEach; ++ej) {
      const std::int64_t i = first_row + y + kSide * ei, j = first_col + x + kSide * ej;
      if (i >= product.rows || j >= product.cols) continue;
      float value = sum[ei][ej];
      if (product.bias != nullptr) value += widen(product.bias[j]);
      if (product.addend != nullptr) value += widen(product.addend[i * c.stride + j]);
      c.row(i)[j] = narrow<C>(value);
    }
  }
}

}  // namespace

void matmul_tiles(View c, ConstView a, ConstView b, const MatmulOptions& options,
                  cudaStream_t stream) {
  const std::int64_t tiles_per_row = (c.cols + kTile - 1) / kTile;
  const std::int64_t blocks = (c.rows + kTile - 1) / kTile * tiles_per_row;
  if (blocks == 0) return;
  with_element(c.type, [&]<class C>(C) {
    with_element(a.type, [&]<class T>(T) {
      const Product<C> product{c.rows,
                               c.cols,
                               options.transpose_a ? a.rows : a.cols,
                               options.transpose_a,
                               options.transpose_b,
                               static_cast<const C*>(options.bias),
                               static_cast<const C*>(options.addend)};
      multiply<C, T><<<grid_size(blocks, "matmul"), kThreads, 0, stream>>>(
          in<C>(c), in<T>(a), in<T>(b), product, static_cast<unsigned>(tiles_per_row));
    });
  });
  check_launch("matmul");
}

}  // namespace ebb::kernels::cuda_model
