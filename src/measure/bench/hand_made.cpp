#include "measure/bench/hand_made.h"

#include <algorithm>
#include <optional>

namespace ebb::measure {
namespace {

using plan::Choices;
using plan::Plan;

// What a person would say: what leaves the device, or as little as fits; how much of that the CPU
// updates; and one thing that differs from the plain way.
struct Recipe {
  std::string name;
  std::optional<double> offload;  // none: as little as fits
  double host_share = 0;
  double recompute = 0;  // share of the blocks
  double inputs = 0;
  double chunk = 1;  // times the default
};

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {
      {.name = "all streamed", .offload = 1},
      {.name = "all by the CPU", .offload = 1, .host_share = 1},
      {.name = "half by the CPU", .offload = 1, .host_share = 0.5},
      {.name = "as little as fits, streamed", .offload = {}},
      {.name = "as little as fits, half by the CPU", .offload = {}, .host_share = 0.5},
      {.name = "blocks recomputed, as little as fits", .offload = {}, .recompute = 1},
      {.name = "small chunks", .offload = 1, .host_share = 0.25, .chunk = 0.25},
      {.name = "large chunks", .offload = 1, .host_share = 0.25, .chunk = 4},
      {.name = "a quarter by the CPU", .offload = 1, .host_share = 0.25},
      {.name = "as little as fits, by the CPU", .offload = {}, .host_share = 1},
      {.name = "half the blocks recomputed, all streamed", .offload = 1, .recompute = 0.5},
      {.name = "inputs in host memory, all streamed", .offload = 1, .inputs = 1}};
  return all;
}

std::optional<Plan> make(const Recipe& recipe, const Plan& like) {
  const auto layers = static_cast<double>(like.workload.layers());
  Choices choices;
  choices.chunk_parameters = static_cast<std::int64_t>(
      recipe.chunk * static_cast<double>(plan::default_chunk_parameters(like.workload)));
  choices.recompute_blocks = static_cast<std::int64_t>(recipe.recompute * layers);
  choices.host_inputs = static_cast<std::int64_t>(recipe.inputs * layers);
  constexpr int parts = 8;
  const double first = recipe.offload.value_or(0);
  const double last = recipe.offload.value_or(1);
  for (double offload = first; offload <= last; offload += 1.0 / parts) {
    choices.offload_fraction = offload;
    choices.host_fraction = offload * recipe.host_share;
    Plan plan = plan::plan_with(like.workload, choices, like.limits, like.profile);
    if (plan::fits(plan)) return plan;
  }
  return std::nullopt;
}

}  // namespace

std::vector<HandMadePlan> hand_made_plans(const Plan& chosen) {
  std::vector<HandMadePlan> found;
  for (const Recipe& recipe : recipes()) {
    if (found.size() == kHandMadePlans) break;
    std::optional<Plan> plan = make(recipe, chosen);
    if (!plan) continue;
    const bool known = std::any_of(found.begin(), found.end(), [&](const HandMadePlan& other) {
      return other.plan.choices == plan->choices;
    });
    if (!known) found.push_back({recipe.name, std::move(*plan)});
  }
  return found;
}

}  // namespace ebb::measure
