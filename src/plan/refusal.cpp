#include "plan/refusal.h"

#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/explain.h"
#include "plan/search.h"

namespace ebb::plan {
namespace {

// Tried out: the same work with one thing let go, or with more and more.
List<std::string> tried_remedies(const Plan& closest, const FixedChoices& fixed) {
  FixedChoices freer = fixed;
  for (const Choice& choice : choice_table()) {
    if (choice.remedy.empty() || !is_fixed(choice, freer)) continue;
    choice.release(freer);
    const SearchResult found = search(closest.workload, freer, closest.limits, closest.profile);
    if (!found.fits) continue;
    // Of many micro-batches the search looks at a few.
    if (fits(plan_with(closest.workload, found.choices, closest.limits, closest.profile))) {
      return {fmt::format("{}: fits with {}", choice.remedy, flags_of(found.choices))};
    }
  }
  return {};
}

// The tiers that are too small for the plan.
List<Shortfall> shortfalls_of(const Plan& plan) {
  List<Shortfall> shortfalls;
  for (const Tier tier : plan.workload.topology->all_tiers()) {
    if (plan.peak(tier) <= plan.limits[tier]) continue;
    shortfalls.push_back(
        {(*plan.workload.topology)[tier].name, plan.peak(tier), plan.limits[tier]});
  }
  return shortfalls;
}

std::string explain_missing(const Plan& closest) {
  std::string text = "the work does not fit the limits.\n" + memory_table(closest);
  for (const Tier tier : closest.workload.topology->all_tiers()) {
    const Bytes missing = closest.peak(tier) - closest.limits[tier];
    if (missing <= 0) continue;
    const std::string& name = (*closest.workload.topology)[tier].name;
    const bool memory = (*closest.workload.topology)[tier].addressable;
    text += fmt::format("Missing on the {}: {} ({} bytes); --{}{}{} would do for this plan.\n",
                        name, format_bytes(missing), missing, name, memory ? "-memory " : " PATH:",
                        memory ? closest.peak(tier) : align_up(closest.peak(tier), kMiB));
  }
  return text;
}

// "the weights", 16 GB: what takes most of a tier at its peak.
std::pair<std::string, Bytes> largest_part(const Plan& plan, Tier tier) {
  std::pair<std::string, Bytes> largest;
  for (const auto& [purpose, bytes] : bytes_at_peak(plan, tier)) {
    if (bytes > largest.second) largest = {std::string(name_of(purpose)), bytes};
  }
  std::map<std::string, Bytes> extras;
  for (const Extra& extra : plan.workload.extras) {
    if (extra.tier == tier) extras[extra.name] += extra.bytes;
  }
  for (const auto& [name, bytes] : extras) {
    if (bytes > largest.second) largest = {name, bytes};
  }
  return largest;
}

// What is too large by itself: whoever reads it need not look for another placement, or should
// look at that part alone.
std::string explain_obstacle(const Plan& closest) {
  const Workload& work = closest.workload;
  Bytes weights = 0, states = 0, all_limits = 0;
  for (const Block& block : work.blocks) {
    weights += block.weights.bytes(block.parameters);
    states += block.states.bytes(block.parameters);
  }
  for (const Tier tier : work.topology->all_tiers()) all_limits += closest.limits[tier];
  if (weights > all_limits) {
    return fmt::format("The weights alone take {}, more than all limits together ({}).\n",
                       format_bytes(weights), format_bytes(all_limits));
  }
  if (weights + states > all_limits) {
    return fmt::format(
        "The weights ({}) and the optimizer's states ({}) alone take more than all limits together "
        "({}).\n",
        format_bytes(weights), format_bytes(states), format_bytes(all_limits));
  }
  std::string text;
  for (const Tier tier : work.topology->all_tiers()) {
    const auto [name, bytes] = largest_part(closest, tier);
    if (bytes <= closest.limits[tier]) continue;
    text += fmt::format("On the {} '{}' alone takes {}, more than its limit ({}).\n",
                        (*work.topology)[tier].name, name, format_bytes(bytes),
                        format_bytes(closest.limits[tier]));
  }
  return text;
}

}  // namespace

OutOfBudget refuse(const Plan& closest, const std::string& flags, List<std::string> remedies,
                   const std::string& note) {
  const bool has_disk = closest.workload.topology->tiers.size() > 2;
  if (!has_disk && closest.peak(Tier::host) > closest.limits[Tier::host]) {
    remedies.emplace_back("a disk for what host memory cannot hold (--disk PATH[:BYTES])");
  }
  remedies.emplace_back("a higher limit, or a smaller model");
  return {fmt::format("{}{}{}Closest plan: {}\nWhat would help:\n  - {}", explain_missing(closest),
                      explain_obstacle(closest), note, flags, fmt::join(remedies, "\n  - ")),
          shortfalls_of(closest), std::move(remedies)};
}

OutOfBudget refusal(const Plan& closest, const FixedChoices& fixed,
                    List<std::string> batch_remedies) {
  std::string note;
  if (const std::int64_t tasks = tasks_of_step(closest.program, closest.workload);
      tasks > kMostTasks) {
    note = fmt::format(
        "A step would have {} tasks, and plans have at most {}: a larger --micro-batch with a "
        "smaller --accumulate does the same work, and so do larger chunks (--chunk-parameters).\n",
        tasks, kMostTasks);
  }
  List<std::string> remedies = tried_remedies(closest, fixed);
  for (std::string& remedy : batch_remedies) remedies.push_back(std::move(remedy));
  return refuse(closest, flags_of(closest.choices), std::move(remedies), note);
}

}  // namespace ebb::plan
