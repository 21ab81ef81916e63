// Products with weights as they are stored. Plain weights of x's type are the products that the
// library has; kernels that read blocks come in here.
#include <fmt/format.h>

#include "ebb/error.h"
#include "kernels/cuda/model/cuda_model_library.h"
#include "kernels/cuda/model/cuda_model_ops.h"

namespace ebb::kernels {
namespace {

// The weights as an operand of plain numbers of `type`; Error where they are not.
ConstView plain(const WeightMatrix& weights, DType type, const char* what) {
  if (weights.type != weight_type(type)) {
    throw Error(
        fmt::format("{} on a CUDA device: expected weights of {}, as its operands are, found "
                    "{}; widen them before they come to the device",
                    what, name_of(weight_type(type)), name_of(weights.type)));
  }
  return {weights.data, type, weights.rows, weights.cols, weights.cols};
}

}  // namespace

void CudaModelOps::linear(View y, ConstView x, const WeightMatrix& weights,
                          const LinearOptions& options) {
  matmul(y, x, plain(weights, x.type, "linear"),
         {.transpose_b = true, .bias = options.bias, .addend = options.addend});
}

Bytes CudaModelLibrary::linear_scratch(const Linear&) const {
  return CudaModelOps::kWorkspace + CudaModelOps::kScratchAlignment;
}

void CudaModelOps::embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids,
                         float scale, std::int64_t first) {
  embed(out, plain(table, out.type, "embed"), ids, scale, first);
}

}  // namespace ebb::kernels
