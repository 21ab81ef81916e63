#include "plan/refusal.h"

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

}  // namespace

OutOfBudget refuse(const Plan& closest, const std::string& flags, List<std::string> remedies,
                   const std::string& note) {
  const bool has_disk = closest.workload.topology->tiers.size() > 2;
  if (!has_disk && closest.peak(Tier::host) > closest.limits[Tier::host]) {
    remedies.emplace_back("a disk for what host memory cannot hold (--disk PATH[:BYTES])");
  }
  remedies.emplace_back("a higher limit, or a smaller model");
  return {fmt::format("{}{}Closest plan: {}\nWhat would help:\n  - {}", explain_missing(closest),
                      note, flags, fmt::join(remedies, "\n  - ")),
          shortfalls_of(closest), std::move(remedies)};
}

OutOfBudget refusal(const Plan& closest, const FixedChoices& fixed) {
  std::string note;
  if (const std::int64_t tasks = tasks_of_step(closest.program, closest.workload);
      tasks > kMostTasks) {
    note = fmt::format(
        "A step would have {} tasks, and plans have at most {}: a larger --micro-batch with a "
        "smaller --accumulate does the same work, and so do larger chunks (--chunk-parameters).\n",
        tasks, kMostTasks);
  }
  List<std::string> remedies = tried_remedies(closest, fixed);
  remedies.emplace_back(
      "a smaller --micro-batch (with a larger --accumulate) or a shorter --sequence");
  return refuse(closest, flags_of(closest.choices), std::move(remedies), note);
}

}  // namespace ebb::plan
