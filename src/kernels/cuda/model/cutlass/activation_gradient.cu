#include "kernels/cuda/model/cutlass/activated_products.h"

#include "kernels/cuda/model/cutlass/gemm.cuh"

namespace ebb::kernels {
namespace {

using namespace activated;

template <class T>
struct GateGradient;
template <int N>
struct GateGradient<cutlass::Array<float, N>> {
  using Floats = cutlass::Array<float, N>;
  __device__ Floats operator()(const Floats& dh, const Floats& gate, const Floats& up) const {
    Floats result;
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] = Silu(gate[i]).times_slope(dh[i] * up[i]);
    return result;
  }
};

// 0 dh, 1 gate, 2 up, 3 gate's gradient, 4 stored; then up's gradient, with h before it or without.
using Gradients =
    Graph<cute::tuple<From<>, From<>, From<>, From<0, 1, 2>, From<3>, From<1, 0, 4>>, Accumulator,
          Source, Load, Compute<GateGradient, float>, Store, Compute<Activated, Element>>;
using GradientsAndValue = Graph<cute::tuple<From<>, From<>, From<>, From<0, 1, 2>, From<3>,
                                            From<1, 2>, From<5>, From<1, 0, 4, 6>>,
                                Accumulator, Source, Load, Compute<GateGradient, float>, Store,
                                Compute<Activated, float>, Store, Compute<Activated, Element>>;

// Takes 1 to 7% less time than one band, and 1 to 7% less than four.
constexpr int kBands = 2;

}  // namespace

void queue_activation_gradient(const GateAndUp& x, View h, const Product& dh, cudaStream_t stream) {
  const Load::Arguments up{in(x.up), Element(0), stride_of(x.up)};
  const Store::Arguments gate_gradient{in(x.gate_gradient), stride_of(x.gate_gradient)};
  const auto set_source = [&](auto& epilogue) {
    epilogue.ptr_C = in(x.gate);
    epilogue.dC = stride_of(x.gate);
  };
  if (h.data == nullptr) {
    queue<Kernel<RowMajor, Element, Gradients>::Gemm>(
        kBands, dh, x.up_gradient, stream, [&](auto& epilogue) {
          set_source(epilogue);
          epilogue.thread = {{}, {}, up, {}, gate_gradient, {}};
        });
    return;
  }
  queue<Kernel<RowMajor, Element, GradientsAndValue>::Gemm>(
      kBands, dh, x.up_gradient, stream, [&](auto& epilogue) {
        set_source(epilogue);
        epilogue.thread = {{}, {}, up, {}, gate_gradient, {}, {in(h), stride_of(h)}, {}};
      });
}

}  // namespace ebb::kernels
