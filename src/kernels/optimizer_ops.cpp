#include "kernels/optimizer_ops.h"

#include "ebb/error.h"

namespace ebb::kernels {

void OptimizerOps::add_to_planes(const SumPlanes&, const bf16*, std::int64_t) {
  throw Error("this device has no sums in planes");
}

void OptimizerOps::finish_planes(const SumPlanes&, const bf16*, std::int64_t) {
  throw Error("this device has no sums in planes");
}

void OptimizerOps::finish_parts(std::span<const GradientPart> parts, DType gradient_type,
                                DType sum_type) {
  for (const GradientPart& part : parts) {
    if (part.low != nullptr) {
      finish_planes(part.planes(), static_cast<const bf16*>(part.sum), part.count);
    } else if (part.sum != nullptr) {
      finish_gradient(part.gradient, gradient_type, part.sum, sum_type, part.count);
    }
    square_sums(part.partials, part.gradient, gradient_type, part.count);
  }
}

}  // namespace ebb::kernels
