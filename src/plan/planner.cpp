#include "plan/planner.h"

#include <algorithm>

#include "base/chunking.h"
#include "ebb/error.h"
#include "plan/refusal.h"
#include "plan/search.h"

namespace ebb::plan {
namespace {

// Whether the program may be built and kept at all, whatever it would move.
bool is_possible(const Plan& plan) {
  return tasks_of_step(plan.program, plan.workload) <= kMostTasks &&
         beside_arena(plan.program, plan.workload, Tier::host) <= plan.limits[Tier::host];
}

}  // namespace

Plan find_plan(const Workload& workload, const FixedChoices& fixed, const Limits& limits,
               const Profile& profile) {
  const auto find = [&](const FixedChoices& asked, const SearchBudget& budget) {
    const Choices choices = search(workload, asked, limits, profile, budget).choices;
    // Of many micro-batches a few tell whether there is room for the program of all of them.
    Plan few = plan_with(shortened(workload, kMostPasses), choices, limits, profile);
    if (workload.micro_batches <= kMostPasses || !is_possible(few)) return few;
    return plan_with(workload, choices, limits, profile);
  };
  Plan plan = find(fixed, {});
  if (fits(plan)) return plan;
  // Micro-batches that were taken for alike leave other holes. Hundreds of programs are built, so
  // they must be small.
  constexpr std::int64_t few_tasks = 1 << 14;
  if (workload.micro_batches > kMostPasses &&
      tasks_of_step(plan.program, plan.workload) <= few_tasks) {
    if (Plan other = find(fixed, {.every_pass = true}); fits(other)) return other;
  }
  // Larger pieces make fewer tasks, which takes less of the host; smaller ones fit where there is
  // hardly room on the device.
  const std::int64_t usual = default_chunk_parameters(workload);
  const bool short_of_host = plan.peak(Tier::host) > limits[Tier::host];
  for (const std::int64_t size : {4 * usual, 2 * usual, usual / 8, usual / kLeastChunkDivisor}) {
    if (fixed.chunk_parameters) break;
    if (size > usual && !short_of_host) continue;
    FixedChoices other_size = fixed;
    other_size.chunk_parameters = std::max(workload.norm_block, size);
    if (Plan other = find(other_size, {}); fits(other)) return other;
  }
  return plan;
}

Plan make_plan(const Workload& workload, const FixedChoices& fixed, const Limits& limits,
               const Profile& profile) {
  Plan plan = find_plan(workload, fixed, limits, profile);
  if (!fits(plan)) throw refusal(plan, fixed, {});
  return plan;
}

}  // namespace ebb::plan
