// The gated activation and its gradient, one pack of columns a thread.
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

template <class T, int N>
__global__ void swiglu_rows(Matrix<T> h, Matrix<const T> gate_up, std::int64_t cols,
                            unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  float gate[N], up[N];
  cuda_model::load(gate, gate_up.row(row) + j);
  cuda_model::load(up, gate_up.row(row) + cols + j);
#pragma unroll
  for (int e = 0; e < N; ++e) gate[e] = gate[e] / (1.0f + expf(-gate[e])) * up[e];
  cuda_model::store(h.row(row) + j, gate);
}

// A thread reads all of its pairs before it writes them, so dgate_up may be gate_up's memory.
template <class T, int N>
__global__ void swiglu_backward_rows(Matrix<T> dgate_up, Matrix<const T> dh,
                                     Matrix<const T> gate_up, std::int64_t cols,
                                     unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  float gate[N], up[N], slope[N];
  cuda_model::load(gate, gate_up.row(row) + j);
  cuda_model::load(up, gate_up.row(row) + cols + j);
  cuda_model::load(slope, dh.row(row) + j);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const float sigmoid = 1.0f / (1.0f + expf(-gate[e]));
    const float dgate = slope[e] * up[e] * sigmoid * fmaf(gate[e], 1.0f - sigmoid, 1.0f);
    up[e] = slope[e] * gate[e] * sigmoid;
    gate[e] = dgate;
  }
  cuda_model::store(dgate_up.row(row) + j, gate);
  cuda_model::store(dgate_up.row(row) + cols + j, up);
}

// Rows of [gate, up]: the second half must start on a boundary as well.
bool halves_vectorize(ConstView gate_up, std::int64_t cols, int width) {
  return cuda_model::can_vectorize(gate_up, cols, width) &&
         cols * size_of(gate_up.type) % cuda_model::kVectorBytes == 0;
}

}  // namespace

void CudaModelOps::swiglu(View h, ConstView gate_up) {
  if (h.rows == 0 || h.cols == 0) return;
  with_element(h.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      const cuda_model::RowGrid grid = cuda_model::row_grid(h.rows, h.cols, N);
      swiglu_rows<T, N><<<grid.blocks, grid.threads, 0, stream_>>>(
          cuda_model::in<T>(h), cuda_model::in<T>(gate_up), h.cols, grid.blocks_per_row);
    };
    const bool vectors =
        cuda_model::can_vectorize(h, h.cols, width) && halves_vectorize(gate_up, h.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("swiglu");
}

void CudaModelOps::swiglu_backward(View dgate_up, ConstView dh, ConstView gate_up) {
  if (dh.rows == 0 || dh.cols == 0) return;
  with_element(dh.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      const cuda_model::RowGrid grid = cuda_model::row_grid(dh.rows, dh.cols, N);
      swiglu_backward_rows<T, N><<<grid.blocks, grid.threads, 0, stream_>>>(
          cuda_model::in<T>(dgate_up), cuda_model::in<T>(dh), cuda_model::in<T>(gate_up), dh.cols,
          grid.blocks_per_row);
    };
    const bool vectors = cuda_model::can_vectorize(dh, dh.cols, width) &&
                         halves_vectorize(dgate_up, dh.cols, width) &&
                         halves_vectorize(gate_up, dh.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("swiglu_backward");
}

}  // namespace ebb::kernels
