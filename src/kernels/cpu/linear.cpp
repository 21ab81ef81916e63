#include "kernels/reference/linear.h"
#include "kernels/cpu/cpu_ops.h"

namespace ebb::kernels {

Bytes cpu_linear_scratch(const Linear&, int) { return 0; }

void CpuOps::linear(View y, ConstView x, const WeightMatrix& weights,
                    const LinearOptions& options) {
  reference::linear(y, x, weights, options);
}

void CpuOps::embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids,
                   float scale, std::int64_t first) {
  reference::embed(out, table, ids, scale, first);
}

}  // namespace ebb::kernels
