#include "kernels/cuda/model/cuda_model_ops.h"

#include <string>

#include "ebb/error.h"
#include "kernels/cuda/model/cuda_model_library.h"
#include "kernels/cuda/model/matmul_tiles.h"
#include "kernels/cuda/stream_handle.h"

namespace ebb::kernels {

CudaModelOps::CudaModelOps(CudaModelLibrary& library, const ExecutionContext& context)
    : library_(library), stream_(stream_handle(context)), scratch_(context.scratch) {}

std::byte* CudaModelOps::scratch(Bytes bytes, const char* what) const {
  const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
  const auto skip =
      static_cast<Bytes>((kScratchAlignment - address % kScratchAlignment) % kScratchAlignment);
  if (static_cast<Bytes>(scratch_.size()) < skip + bytes) {
    throw Error(std::string(what) + ": the context's scratch has " +
                std::to_string(scratch_.size()) + " bytes and " + std::to_string(skip + bytes) +
                " are needed; give what matmul_scratch() and attention_scratch() ask for");
  }
  return scratch_.data() + skip;
}

void CudaModelOps::matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  if (c.rows == 0 || c.cols == 0) return;
  std::byte* const workspace = scratch(kWorkspace, "matmul");
  const std::int64_t depth = options.transpose_a ? a.rows : a.cols;
  if (depth > 0 && library_.products().run({c, a, b, options}, workspace, stream_)) return;
  cuda_model::matmul_tiles(c, a, b, options, stream_);
}

void CudaModelOps::product_activate(View h, const Product& x, Activation activation) {
  FusedActivation* const fused = library_.fused_activation();
  if (fused != nullptr && fused->forward(h, x, activation, stream_)) return;
  ModelOps::product_activate(h, x, activation);
}

void CudaModelOps::product_activate_backward(View dx, View h, const Product& dh, ConstView x,
                                             Activation activation) {
  FusedActivation* const fused = library_.fused_activation();
  if (fused != nullptr && fused->backward(dx, h, dh, x, activation, stream_)) return;
  ModelOps::product_activate_backward(dx, h, dh, x, activation);
}

}  // namespace ebb::kernels
