// Planning for a GPU that is not here goes by estimates of workspaces: beside one that is, they
// must be near what its libraries ask for.
#include "kernels/estimated_needs.h"

#include <fmt/format.h>

#include "gpu/gpu_test.h"
#include "kernels/cuda/model_library.h"

namespace ebb::kernels {
namespace {

using EstimatedNeedsTest = GpuTest;

TEST_F(EstimatedNeedsTest, EstimatesAreNearWhatLibrariesAskFor) {
  const auto here = create_cuda_model_library();
  const auto absent = estimate_needs("cuda", 1);
  for (const AttentionShape& shape : {AttentionShape{8, 2048, 2048, 12, 2, 128, 0.1f},
                                      {4, 4096, 4096, 32, 8, 128, 0.1f},
                                      {1, 8192, 8192, 32, 8, 128, 0.1f},
                                      {1, 65536, 65536, 32, 8, 128, 0.1f},
                                      {16, 512, 512, 14, 2, 64, 0.1f}}) {
    for (const bool backward : {false, true}) {
      const Bytes asked = here->attention_scratch(DType::bf16, shape, backward);
      const Bytes estimate = absent->attention_scratch(DType::bf16, shape, backward);
      fmt::print("sequence {}, {}: {} asked, {} estimated\n", shape.queries,
                 backward ? "backward" : "forward", format_bytes(asked), format_bytes(estimate));
      // A quarter of it, or what is small beside a model.
      EXPECT_LE(std::abs(asked - estimate), std::max(asked / 4, 64 * kMiB));
    }
  }
  const View c{nullptr, DType::bf16, 2048, 2048, 2048};
  EXPECT_EQ(absent->matmul_scratch(c, c, c, {}), here->matmul_scratch(c, c, c, {}));
}

}  // namespace
}  // namespace ebb::kernels
