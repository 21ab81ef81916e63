#include "kernels/cuda/model/cutlass/activated_products.h"

#include <cutlass/version.h>

#include "kernels/cuda/model/cutlass/gemm.cuh"

namespace ebb::kernels {
namespace {

using namespace activated;

// 0 the product, 1 gate, 2 up as it is stored, 3 stored, 4 h.
using Value = Graph<cute::tuple<From<>, From<>, From<0>, From<2>, From<1, 3>>, Accumulator, Source,
                    Compute<cutlass::epilogue::thread::Identity, Element>, Store,
                    Compute<Activated, Element>>;
using Plain = fusion::LinearCombination<Element, float, void, float>;

// Takes 10 to 13% less time than one band on an H200, for the MLPs of 1.5B to 7B.
constexpr int kBands = 4;

}  // namespace

void queue_activated(View h, const Product& gate, const Product& up, cudaStream_t stream) {
  const auto queue_plain = [&](const Product& product) {
    using Gemm = Kernel<ColumnMajor, void, Plain>::Gemm;
    queue<Gemm>(kBands, product, product.c, stream, [](auto&) {});
  };
  queue_plain(gate);
  if (h.data == nullptr) {
    queue_plain(up);
    return;
  }
  using Gemm = Kernel<ColumnMajor, Element, Value>::Gemm;
  queue<Gemm>(kBands, up, h, stream, [&](auto& epilogue) {
    epilogue.ptr_C = in(gate.c);
    epilogue.dC = stride_of(gate.c);
    epilogue.thread = {{}, {}, {}, {in(up.c), stride_of(up.c)}, {}};
  });
}

std::string activated_products_version() {
  return "cutlass " + std::to_string(CUTLASS_MAJOR) + "." + std::to_string(CUTLASS_MINOR) + "." +
         std::to_string(CUTLASS_PATCH);
}

}  // namespace ebb::kernels
