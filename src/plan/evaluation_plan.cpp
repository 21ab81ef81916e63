#include "plan/evaluation_plan.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/chunking.h"
#include "plan/evaluation_program.h"
#include "plan/explain.h"
#include "plan/search.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

// Deeper streams than the last are not tried: each of their objects is a block's weights.
constexpr std::int64_t kDepths[] = {Choices::kLeastDepth, 4, 8};
// Chunks are what a disk gives. Smaller ones wait in less host memory.
constexpr std::int64_t kSmallerChunks[] = {1, 8, kLeastChunkDivisor};

// The rows of the table that an evaluation has.
bool is_of_evaluation(const Choice& choice) {
  constexpr std::string_view flags[] = {"--weights", "--vocabulary", "--chunk-parameters",
                                        "--depth", "--disk-weights"};
  return std::ranges::find(flags, choice.flag) != std::end(flags);
}

bool fits_on(const Plan& plan, Tier tier) { return plan.peak(tier) <= plan.limits[tier]; }

class EvaluationFinder {
 public:
  EvaluationFinder(const Workload& work, const FixedChoices& fixed, const Limits& limits,
                   const Profile& profile)
      : work_(work), fixed_(fixed), limits_(limits), profile_(profile) {}

  Plan find() {
    const std::int64_t usual = default_chunk_parameters(work_);
    for (const std::int64_t smaller : kSmallerChunks) {
      chunk_ = fixed_.chunk_parameters.value_or(std::max(work_.norm_block, usual / smaller));
      try_all();
      if (best_ || fixed_.chunk_parameters || fixed_.below == Tier::host) break;
    }
    return best_ ? std::move(*best_) : std::move(*closest_);
  }

 private:
  void try_all() {
    const bool can_cut =
        std::ranges::any_of(work_.blocks, [](const Block& block) { return !block.pieces.empty(); });
    for (const std::int64_t cut : {0, 1}) {
      if (cut == 1 && !can_cut) continue;
      if (can_cut && cut != fixed_.vocabulary_cut.value_or(cut)) continue;
      std::int64_t least = 0;
      for (const std::int64_t depth : kDepths) {
        if (depth > Choices::kLeastDepth && fixed_.depth) break;
        const auto found = least_streamed({.below = fixed_.below,
                                           .streamed_weights = least,
                                           .vocabulary_cut = cut,
                                           .depth = fixed_.depth.value_or(depth)});
        if (!found) break;
        // Nothing moves: neither depth nor pieces could make it faster.
        if (*found == 0) return;
        least = *found;  // deeper streams take more room
      }
    }
  }

  // With as few streamed blocks as fit, from those of the choices on: their number; nothing where
  // no number fits.
  std::optional<std::int64_t> least_streamed(Choices choices) {
    choices.chunk_parameters = chunk_;
    const std::int64_t all = work_.blocks.count();
    const std::int64_t first =
        std::min(all, fixed_.streamed_weights.value_or(choices.streamed_weights));
    const std::int64_t last = fixed_.streamed_weights ? first : all;
    for (choices.streamed_weights = first; choices.streamed_weights <= last;
         ++choices.streamed_weights) {
      if (least_on_disk(choices)) return choices.streamed_weights;
    }
    return std::nullopt;
  }

  // With as few of the streamed ones on the disk as fit; false where no number does.
  bool least_on_disk(Choices choices) {
    const std::int64_t most =
        choices.below == Tier::host
            ? 0
            : std::min(choices.streamed_weights, fixed_.disk_weights.value_or(kMany));
    std::int64_t low = fixed_.disk_weights ? most : 0, high = most;
    choices.disk_weights = low;
    Plan plan = evaluation_with(work_, choices, limits_, profile_);
    if (take(plan)) return true;
    // A disk makes room in host memory alone.
    if (low == high || !fits_on(plan, Tier::device)) return false;
    const auto with = [&](std::int64_t on_disk) {
      choices.disk_weights = on_disk;
      return evaluation_with(work_, choices, limits_, profile_);
    };
    Plan found = with(high);
    if (!fits(found)) return take(found);
    while (low + 1 < high) {
      const std::int64_t middle = low + (high - low) / 2;
      Plan tried = with(middle);
      if (fits(tried)) {
        high = middle;
        found = std::move(tried);
      } else {
        low = middle;
      }
    }
    return take(found);
  }

  // Whether it fits. Keeps the best of those that do, and the closest of the others.
  bool take(Plan& plan) {
    if (!fits(plan)) {
      const Bytes missing = missing_bytes(plan);
      if (!closest_ || missing < missing_bytes(*closest_)) closest_ = plan;
      return false;
    }
    const double seconds = plan.prediction.step_seconds;
    if (!best_ || seconds < best_->prediction.step_seconds * kWorthIt) best_ = plan;
    return true;
  }

  static constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();

  const Workload& work_;
  const FixedChoices& fixed_;
  const Limits& limits_;
  const Profile& profile_;
  std::int64_t chunk_ = 0;
  std::optional<Plan> best_, closest_;
};

}  // namespace

Plan evaluation_with(const Workload& work, const Choices& choices, const Limits& limits,
                     const Profile& profile) {
  Plan plan{.limits = limits, .workload = work, .choices = choices, .profile = profile};
  plan.program = build_evaluation(work, choices);
  plan.layout = lay_out(plan.program);
  add_waits(plan.program, plan.layout);
  plan.prediction = simulate(plan.program, profile);
  return plan;
}

Plan find_evaluation(const Workload& work, const FixedChoices& fixed, const Limits& limits,
                     const Profile& profile) {
  return EvaluationFinder(work, fixed, limits, profile).find();
}

std::string evaluation_flags(const Choices& choices) {
  std::string flags;
  for (const Choice& choice : choice_table()) {
    if (is_of_evaluation(choice)) flags += flag_of(choices, choice);
  }
  return flags.substr(flags.find_first_not_of(' '));
}

std::string explain_evaluation(const Plan& plan) {
  const Topology& topology = *plan.workload.topology;
  const List<Tier> homes = weight_homes(plan.workload, plan.choices);
  PerTier<std::int64_t> parameters;
  for (std::size_t b = 0; b < homes.size(); ++b) {
    parameters[homes[b]] += plan.workload.blocks[b].parameters;
  }
  std::string where;
  for (const Tier tier : topology.all_tiers()) {
    if (parameters[tier] == 0) continue;
    where += fmt::format("{}{} on the {}", where.empty() ? "" : ", ",
                         format_count(parameters[tier]), topology[tier].name);
  }
  return fmt::format(
      "Plan: {}\n  {} parameters: {}\n{}A batch of {} tokens is predicted to take {} ({:.0f} "
      "tokens/s) on {}, bound by {}.\n{}",
      evaluation_flags(plan.choices), format_count(plan.workload.parameters()), where,
      memory_table(plan), plan.workload.tokens, format_seconds(plan.prediction.step_seconds),
      plan.tokens_per_second(), plan.profile.name, bound_by(plan), lane_table(plan));
}

Trace predicted_evaluation(const Plan& plan) {
  Trace trace = predicted_trace(plan);
  trace.verb = "evaluate";
  trace.run = "batch";
  return trace;
}

}  // namespace ebb::plan
