#include "kernels/cuda/model/cuda_model_library.h"

#include <cublasLt.h>

#include "base/json.h"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model_library.h"

namespace ebb::kernels {

CudaModelLibrary::CudaModelLibrary()
    : products_(CudaModelOps::kWorkspace),
      fused_attention_(create_fused_attention()),
      fused_activation_(create_fused_activation()) {}

Bound<ModelOps> CudaModelLibrary::ops(const ExecutionContext& context) {
  return Bound<ModelOps>(std::in_place_type<CudaModelOps>, *this, context);
}

Bytes CudaModelLibrary::matmul_scratch(View, ConstView, ConstView, const MatmulOptions&) const {
  return CudaModelOps::kWorkspace + CudaModelOps::kScratchAlignment;
}

std::int64_t CudaModelLibrary::entries() const {
  return products_.plans() + (fused_attention_ ? fused_attention_->plans() : 0);
}

std::unique_ptr<ModelLibrary> create_cuda_model_library() {
  return std::make_unique<CudaModelLibrary>();
}

Json cuda_model_numerics() {
  return {{"cublaslt", cublasLtGetVersion()},
          {"matmul_workspace", CudaModelOps::kWorkspace},
          {"attention", fused_attention_version()},
          {"activation", fused_activation_version()}};
}

}  // namespace ebb::kernels
