#include "plan/utilization.h"

namespace ebb::plan {

double model_flops(const Workload& workload) {
  double flops = 0;
  for (const Block& block : workload.blocks) {
    for (const Cost& cost : {block.forward, block.backward}) {
      flops +=
          cost.flops + cost.narrow_flops + cost.attention_flops + cost.attention_backward_flops;
    }
  }
  return flops * static_cast<double>(workload.micro_batches);
}

double utilization(const Plan& plan, double step_seconds) {
  return model_flops(plan.workload) / step_seconds / plan.profile.matmul_flops;
}

std::optional<double> measured_utilization(const Plan& plan, double step_seconds) {
  if (!plan.profile.matmul_flops.measured()) return std::nullopt;
  return utilization(plan, step_seconds);
}

}  // namespace ebb::plan
