#include "kernels/cpu/numerics.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include "base/json.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tile_matmul.h"

namespace ebb::kernels {

// Raised whenever a kernel's order of operations, a rounding or the grid of matrix tiles changes.
constexpr int kRevision = 3;

Json cpu_numerics() {
  const dnnl_version_t* version = dnnl_version();
  return {{"revision", kRevision},
          {"instructions", isa_in_use()},
          {"onednn", fmt::format("{}.{}.{}", version->major, version->minor, version->patch)},
          {"onednn_instructions", static_cast<int>(dnnl_get_effective_cpu_isa())},
          {"bf16_products", TileCache::has_bf16_products()}};
}

}  // namespace ebb::kernels
