// Activations and their gradients, gated or plain, one pack of columns a thread.
#include "kernels/cuda/model/activations.cuh"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

// `cols` are h's; where `Gated`, the gate lies in the first of as many columns of x and what it
// opens for in the second.
template <class T, int N, class Act, bool Gated>
__global__ void activate_rows(Matrix<T> h, Matrix<const T> x, std::int64_t cols,
                              unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  float gate[N], up[N];
  cuda_model::load(gate, x.row(row) + j);
  if constexpr (Gated) cuda_model::load(up, x.row(row) + cols + j);
#pragma unroll
  for (int e = 0; e < N; ++e) gate[e] = Act(gate[e]).times_value(Gated ? up[e] : 1.0f);
  cuda_model::store(h.row(row) + j, gate);
}

// A thread reads all of its elements before it writes them, so dx may be x's memory and h dh's.
template <class T, int N, class Act, bool Gated>
__global__ void activate_backward_rows(Matrix<T> dx, Matrix<T> h, Matrix<const T> dh,
                                       Matrix<const T> x, std::int64_t cols,
                                       unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  float gate[N], up[N], slope[N];
  cuda_model::load(gate, x.row(row) + j);
  if constexpr (Gated) cuda_model::load(up, x.row(row) + cols + j);
  cuda_model::load(slope, dh.row(row) + j);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const Act act(gate[e]);
    const float opened = Gated ? up[e] : 1.0f;
    gate[e] = act.times_slope(slope[e] * opened);
    if constexpr (Gated) up[e] = act.times_value(slope[e]);
    slope[e] = act.times_value(opened);
  }
  cuda_model::store(dx.row(row) + j, gate);
  if constexpr (Gated) cuda_model::store(dx.row(row) + cols + j, up);
  if (h.data != nullptr) cuda_model::store(h.row(row) + j, slope);
}

// Calls body with the activation for results of type T and, as std::bool_constant, whether x has
// gates.
template <class T, class Body>
void with_activation(Activation activation, bool gated, const Body& body) {
  const auto with_gates = [&]<class Act>(std::type_identity<Act> act) {
    gated ? body(act, std::true_type{}) : body(act, std::false_type{});
  };
  switch (activation) {
    case Activation::silu: return with_gates(std::type_identity<cuda_model::Silu<T>>{});
    case Activation::gelu: return with_gates(std::type_identity<cuda_model::Gelu<T>>{});
    case Activation::gelu_tanh: return with_gates(std::type_identity<cuda_model::GeluTanh<T>>{});
  }
}

// Rows of one half, or of two: the second half must start on a boundary as well.
bool halves_vectorize(ConstView x, std::int64_t cols, int width) {
  return cuda_model::can_vectorize(x, cols, width) &&
         cols * size_of(x.type) % cuda_model::kVectorBytes == 0;
}

}  // namespace

void CudaModelOps::activate(View h, ConstView x, Activation activation) {
  if (h.rows == 0 || h.cols == 0) return;
  with_element(h.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const bool vectors =
        cuda_model::can_vectorize(h, h.cols, width) && halves_vectorize(x, h.cols, width);
    const auto start = [&]<class Act, bool Gated>(std::type_identity<Act>,
                                                  std::bool_constant<Gated>) {
      const auto launch = [&]<int N>(std::integral_constant<int, N>) {
        const cuda_model::RowGrid grid = cuda_model::row_grid(h.rows, h.cols, N);
        activate_rows<T, N, Act, Gated><<<grid.blocks, grid.threads, 0, stream_>>>(
            cuda_model::in<T>(h), cuda_model::in<T>(x), h.cols, grid.blocks_per_row);
      };
      vectors ? launch(std::integral_constant<int, width>{})
              : launch(std::integral_constant<int, 1>{});
    };
    with_activation<T>(activation, x.cols != h.cols, start);
  });
  cuda_model::check_launch("activate");
}

void CudaModelOps::activate_backward(View dx, View h, ConstView dh, ConstView x,
                                     Activation activation) {
  if (dh.rows == 0 || dh.cols == 0) return;
  with_element(dh.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    // (An h that is not wanted is null, which lies on every boundary.)
    const bool vectors = cuda_model::can_vectorize(dh, dh.cols, width) &&
                         cuda_model::can_vectorize(h, dh.cols, width) &&
                         halves_vectorize(dx, dh.cols, width) &&
                         halves_vectorize(x, dh.cols, width);
    const auto start = [&]<class Act, bool Gated>(std::type_identity<Act>,
                                                  std::bool_constant<Gated>) {
      const auto launch = [&]<int N>(std::integral_constant<int, N>) {
        const cuda_model::RowGrid grid = cuda_model::row_grid(dh.rows, dh.cols, N);
        activate_backward_rows<T, N, Act, Gated><<<grid.blocks, grid.threads, 0, stream_>>>(
            cuda_model::in<T>(dx), cuda_model::in<T>(h), cuda_model::in<T>(dh),
            cuda_model::in<T>(x), dh.cols, grid.blocks_per_row);
      };
      vectors ? launch(std::integral_constant<int, width>{})
              : launch(std::integral_constant<int, 1>{});
    };
    with_activation<T>(activation, x.cols != dh.cols, start);
  });
  cuda_model::check_launch("activate_backward");
}

}  // namespace ebb::kernels
