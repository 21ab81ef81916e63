// Utilization: what counts as the model's work, and when it is measured.
#include "plan/utilization.h"

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

TEST(Utilization, CountsProductsAndAttentionOfForwardAndBackward) {
  EXPECT_EQ(model_flops(small_plan().workload), 3 * 2 * 54321.0);
}

TEST(Utilization, IsWorkOverTimeOverTheMatrixRate) {
  EXPECT_DOUBLE_EQ(utilization(small_plan(), 652), 3 * 2 * 54321.0 / 652 / 1000);
}

TEST(Utilization, OfARateThatWasNotMeasuredIsNone) {
  Plan plan = small_plan();
  EXPECT_EQ(measured_utilization(plan, 2), utilization(plan, 2));
  for (const char* source :
       {"rule of thumb", "0.75 of data sheet", "measured, on another machine"}) {
    plan.profile.matmul_flops.source = source;
    EXPECT_EQ(measured_utilization(plan, 2), std::nullopt) << source;
  }
}

}  // namespace
}  // namespace ebb::plan
