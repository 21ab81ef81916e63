// The share of the speed of light: what counts as the model's work, and when a share is measured.
#include "plan/light.h"

#include <gtest/gtest.h>

namespace ebb::plan {
namespace {

Plan small_plan() {
  Plan plan;
  Block block{.name = "block"};
  block.forward = {.flops = 1, .narrow_flops = 20, .attention_flops = 300, .pass_bytes = 7};
  block.recompute = {.flops = 5e6};
  block.backward = {.flops = 4000, .attention_backward_flops = 50000, .bytes = 7, .calls = 9};
  plan.workload.blocks = {block, block};
  plan.workload.micro_batches = 3;
  plan.profile.matmul_flops = {1000, "measured"};
  return plan;
}

TEST(Light, CountsProductsAndAttentionOfForwardAndBackward) {
  EXPECT_EQ(model_flops(small_plan().workload), 3 * 2 * 54321.0);
}

TEST(Light, ShareIsWorkOverTimeOverTheMatrixRate) {
  EXPECT_DOUBLE_EQ(share_of_light(small_plan(), 652), 3 * 2 * 54321.0 / 652 / 1000);
}

TEST(Light, AShareOfARateThatWasNotMeasuredIsNone) {
  Plan plan = small_plan();
  EXPECT_EQ(measured_share_of_light(plan, 2), share_of_light(plan, 2));
  for (const char* source :
       {"rule of thumb", "0.75 of data sheet", "measured, on another machine"}) {
    plan.profile.matmul_flops.source = source;
    EXPECT_EQ(measured_share_of_light(plan, 2), std::nullopt) << source;
  }
}

}  // namespace
}  // namespace ebb::plan
