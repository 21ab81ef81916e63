#include "plan/refusal.h"

#include <vector>

#include <fmt/format.h>

#include "plan/explain.h"
#include "plan/search.h"

namespace ebb::plan {
namespace {

// What would help, each tried out: the same work with one thing let go, or with more and more.
std::vector<std::string> remedies(const Plan& closest, const Wishes& wishes) {
  Wishes freer = wishes;
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

}  // namespace

std::string explain_refusal(const Plan& closest, const Wishes& wishes) {
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
  if (const std::int64_t tasks = tasks_of_step(closest.program, closest.workload);
      tasks > kMostTasks) {
    text += fmt::format(
        "A step would have {} tasks, and plans have at most {}: a larger --micro-batch with a "
        "smaller --accumulate does the same work, and so do larger chunks (--chunk-parameters).\n",
        tasks, kMostTasks);
  }
  text += fmt::format("Closest plan: {}\nWhat would help:\n", flags_of(closest.choices));
  for (const std::string& remedy : remedies(closest, wishes)) text += "  - " + remedy + "\n";
  if (closest.choices.below == Tier::host &&
      closest.peak(Tier::host) > closest.limits[Tier::host]) {
    text += "  - a disk for what host memory cannot hold (--disk PATH[:BYTES])\n";
  }
  text += "  - a smaller --micro-batch (with a larger --accumulate) or a shorter --sequence\n";
  return text + "  - a higher limit, or a smaller model";
}

}  // namespace ebb::plan
