#include "plan/planner.h"

#include <algorithm>
#include <cmath>

#include "ebb/error.h"
#include "plan/explain.h"
#include "plan/training_program.h"

namespace ebb::plan {
namespace {

// Shares are tried in eighths: finer ones move a few percent of the states.
constexpr int kShares = 8;
// A plan must be this much faster to be worth one more thing that moves.
constexpr double kWorthIt = 0.99;

std::vector<std::int64_t> block_counts(const std::optional<std::int64_t>& wish, std::int64_t layers,
                                       bool halves) {
  if (wish) return {std::min(*wish, layers)};
  if (halves && layers > 1) return {0, layers / 2, layers};
  return {0, layers};
}

// How much of what leaves the device the CPU updates, for each way worth trying.
std::vector<double> host_shares(const Wishes& wishes) {
  if (wishes.site == Site::host) return {1.0};
  if (wishes.site || wishes.host_fraction) return {0.0};
  return {0.0, 0.25, 0.5, 0.75, 1.0};
}

struct Recipe {
  Choices choices{};  // all but the shares
  double host_share = 0;

  Choices with(const Wishes& wishes, double fraction) const {
    Choices all = choices;
    all.offload_fraction = fraction;
    all.host_fraction = std::min(fraction, wishes.host_fraction.value_or(fraction * host_share));
    return all;
  }
};

std::vector<Recipe> recipes_of(const Workload& workload, const Wishes& wishes) {
  const auto layers = static_cast<std::int64_t>(workload.blocks.size()) - 2;
  std::vector<Recipe> recipes;
  for (const std::int64_t recompute : block_counts(wishes.recompute_blocks, layers, true)) {
    for (const std::int64_t inputs : block_counts(wishes.host_inputs, layers, false)) {
      for (const double share : host_shares(wishes)) {
        Recipe recipe{.choices = {}, .host_share = share};
        recipe.choices.chunk_parameters =
            wishes.chunk_parameters.value_or(default_chunk_parameters(workload));
        recipe.choices.recompute_blocks = recompute;
        recipe.choices.host_inputs = inputs;
        recipes.push_back(recipe);
      }
    }
  }
  return recipes;
}

// The least a recipe can move off the device and still fit, in eighths; or the fixed share. More
// off the device needs less of it and more of the host, so a bisection finds it.
std::optional<Plan> smallest_that_fits(const Recipe& recipe, const Wishes& wishes,
                                       const Workload& workload, const Limits& limits,
                                       const Profile& profile, std::optional<Plan>& closest) {
  bool short_of_device = false;  // the last attempt
  const auto attempt = [&](double fraction) -> std::optional<Plan> {
    Plan plan = plan_with(workload, recipe.with(wishes, fraction), limits, profile);
    if (fits(plan)) return plan;
    short_of_device = plan.peak(Tier::device) > limits.device;
    if (!closest || missing_bytes(plan) < missing_bytes(*closest)) closest = std::move(plan);
    return std::nullopt;
  };
  if (wishes.site == Site::resident) return attempt(0.0);
  if (wishes.offload_fraction) return attempt(*wishes.offload_fraction);
  if (wishes.site) return attempt(1.0);
  std::optional<Plan> best;
  for (int low = 0, high = kShares; low <= high;) {
    const int middle = (low + high) / 2;
    const double share = static_cast<double>(middle) / kShares;
    auto plan = attempt(std::max(share, wishes.host_fraction.value_or(0)));
    if (!plan && short_of_device) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
    if (plan) best = std::move(plan);
  }
  return best;
}

}  // namespace

Plan plan_with(const Workload& workload, const Choices& choices, const Limits& limits,
               const Profile& profile) {
  Plan plan{.limits = limits, .workload = workload, .choices = choices, .profile = profile};
  // Holes between objects can make the arena larger than what is alive at once; then states ride in
  // a little later and it is laid out again, in the end as late as they can.
  const Bytes room = limits.device - workload.device_extra;
  Bytes budget = room;
  constexpr int attempts = 8;
  for (int attempt = 1; attempt <= attempts; ++attempt) {
    plan.program = build_training(workload, choices, budget);
    plan.layout = lay_out(plan.program);
    const Bytes alive = peak_alive(plan.program, Tier::device);
    const Bytes excess = plan.layout.size_of(Tier::device) - room;
    // More alive than the limit: the barest order needs more too, and nothing helps.
    if (excess <= 0 || alive > room || budget == 0) break;
    const bool barest = alive > budget || attempt + 1 == attempts;
    // Holes do not shrink as fast as the budget: steps of a certain size get there.
    const Bytes step = std::max(excess, room / 32);
    budget = barest ? 0 : std::max<Bytes>(0, std::min(budget - step, alive - 1));
  }
  add_waits(plan.program, plan.layout);
  plan.prediction = simulate(plan.program, profile);
  return plan;
}

bool fits(const Plan& plan) {
  return std::all_of(kTiers.begin(), kTiers.end(),
                     [&](Tier tier) { return plan.peak(tier) <= plan.limits.of(tier); });
}

Plan make_plan(const Workload& workload, const Wishes& wishes, const Limits& limits,
               const Profile& profile) {
  std::optional<Plan> best;
  std::optional<Plan> closest;  // the one that misses least
  for (const Recipe& recipe : recipes_of(workload, wishes)) {
    auto plan = smallest_that_fits(recipe, wishes, workload, limits, profile, closest);
    if (!plan) continue;
    if (!best || plan->prediction.step_seconds < best->prediction.step_seconds * kWorthIt) {
      best = std::move(plan);
    }
  }
  if (best) return std::move(*best);
  throw OutOfBudget(explain_refusal(*closest, wishes));
}

}  // namespace ebb::plan
