#include "kernels/cuda/model/cuda_model_ops.h"

#include <cublasLt.h>

#include <string>

#include "base/json.h"
#include "device/cuda/cuda_stream.h"
#include "ebb/error.h"
#include "kernels/cuda/model/matmul_tiles.h"
#include "kernels/cuda/model_ops.h"

namespace ebb::kernels {

CudaModelOps::CudaModelOps()
    : products_(kWorkspace),
      fused_(create_fused_attention()),
      fused_activation_(create_fused_activation()) {}

void CudaModelOps::bind_stream(device::Stream& stream) {
  auto* const own = dynamic_cast<device::CudaStream*>(&stream);
  if (own == nullptr) throw Error("kernels: CUDA kernels need a stream of the cuda device");
  stream_ = own->handle();
}

std::byte* CudaModelOps::scratch(Bytes bytes, const char* what) const {
  const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
  const auto skip =
      static_cast<Bytes>((kScratchAlignment - address % kScratchAlignment) % kScratchAlignment);
  if (static_cast<Bytes>(scratch_.size()) < skip + bytes) {
    throw Error(std::string(what) + ": the bound scratch has " + std::to_string(scratch_.size()) +
                " bytes and " + std::to_string(skip + bytes) +
                " are needed; bind what matmul_scratch() and attention_scratch() ask for");
  }
  return scratch_.data() + skip;
}

Bytes CudaModelOps::matmul_scratch(View, ConstView, ConstView, const MatmulOptions&) const {
  return kWorkspace + kScratchAlignment;
}

void CudaModelOps::matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  if (c.rows == 0 || c.cols == 0) return;
  std::byte* const workspace = scratch(kWorkspace, "matmul");
  const std::int64_t depth = options.transpose_a ? a.rows : a.cols;
  if (depth > 0 && products_.run({c, a, b, options}, workspace, stream_)) return;
  cuda_model::matmul_tiles(c, a, b, options, stream_);
}

void CudaModelOps::product_activate(View h, const Product& x, Activation activation) {
  if (fused_activation_ && fused_activation_->forward(h, x, activation, stream_)) return;
  ModelOps::product_activate(h, x, activation);
}

void CudaModelOps::product_activate_backward(View dx, View h, const Product& dh, ConstView x,
                                             Activation activation) {
  if (fused_activation_ && fused_activation_->backward(dx, h, dh, x, activation, stream_)) return;
  ModelOps::product_activate_backward(dx, h, dh, x, activation);
}

std::unique_ptr<ModelOps> create_cuda_model_ops() { return std::make_unique<CudaModelOps>(); }

Json cuda_model_numerics() {
  return {{"cublaslt", cublasLtGetVersion()},
          {"matmul_workspace", CudaModelOps::kWorkspace},
          {"attention", fused_attention_version()},
          {"activation", fused_activation_version()}};
}

}  // namespace ebb::kernels
