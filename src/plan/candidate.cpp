#include "plan/candidate.h"

#include <algorithm>

#include "plan/evaluation_program.h"
#include "plan/training_program.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

Bytes streamed_bytes(const Program& program, const Workload& workload) {
  Bytes bytes = 0;
  for (const Chunk& chunk : program.chunks) {
    if (chunk.owner != workload.ranks.rank) continue;
    if (chunk.site() == Site::stream) bytes += state_bytes(workload, chunk);
  }
  return bytes;
}

// A program with this tide that fits, laid out. Holes between objects can make the arena larger
// than what is alive at once; then states ride in a little later and it is laid out again, in the
// end as late as they can.
bool lay_out_within(Plan& plan, Tide tide) {
  const Bytes room = plan.limits[Tier::device] - plan.workload.extra(Tier::device);
  Bounds bounds;
  for (const Tier tier : plan.workload.topology->all_tiers()) {
    bounds[tier].most = plan.limits[tier] - plan.workload.extra(tier);
  }
  ArenaBounds& device = bounds[Tier::device];
  tide.budget = room;
  tide.host_budget = tide.leaving_budget = bounds[Tier::host].most;
  constexpr int attempts = 5;
  for (int attempt = 1; attempt <= attempts; ++attempt) {
    plan.program = build_training(plan.workload, plan.choices, tide);
    bounds[Tier::host].most =
        plan.limits[Tier::host] - beside_arena(plan.program, plan.workload, Tier::host);
    const Bytes alive = peak_alive(plan.program, Tier::device);
    // Streams hold a little more than was asked for. More than that: the barest order needs more
    // than the limit, too, and nothing helps.
    if (alive > room) {
      const Bytes over = alive - room;
      if (tide.budget <= 0 || over > room / 64) return false;
      tide.budget = attempt + 1 == attempts ? 0 : std::max<Bytes>(0, tide.budget - 2 * over);
      continue;
    }
    // States that ride out hold up the tasks that need their memory: the more there is, the later.
    const Bytes streamed = streamed_bytes(plan.program, plan.workload);
    device.wanted = tide.budget == 0 && streamed > 0 ? room : std::min(room, alive + streamed);
    plan.layout = lay_out(plan.program, bounds);
    const Bytes excess = plan.layout.size_of(Tier::device) - room;
    const Bytes host_excess = plan.layout.size_of(Tier::host) - bounds[Tier::host].most;
    if (excess <= 0 && host_excess <= 0) return fits(plan);
    if (host_excess > 0) {
      // What waits to be written makes holes, too: a little less of it, or none.
      if (tide.leaving_budget == 0) return false;
      const Bytes less = std::max(2 * host_excess, bounds[Tier::host].most / 64);
      tide.leaving_budget = attempt == 1 ? std::max<Bytes>(0, tide.leaving_budget - less) : 0;
    }
    if (excess > 0) {
      if (tide.budget == 0) return false;
      const bool barest = alive > tide.budget || attempt + 1 == attempts;
      // Holes do not shrink as fast as the budget: growing steps get there.
      const Bytes step = std::max(2 * excess, (room / 256) << attempt);
      tide.budget = barest ? 0 : std::max<Bytes>(0, std::min(tide.budget - step, alive - 1));
    }
  }
  return false;
}

// A rank without passes evaluates all the same, in memory that its steps do not ask for.
void make_room_for_evaluation(Plan& plan) {
  if (plan.workload.micro_batches == 0) plan.layout.size = sizes_with_evaluation(plan);
}

bool predict_within(Plan& plan, const Tide& tide) {
  if (!lay_out_within(plan, tide)) return false;
  make_room_for_evaluation(plan);
  if (!fits(plan)) return false;
  add_waits(plan.program, plan.layout);
  plan.prediction = simulate(plan.program, plan.profile);
  return true;
}

}  // namespace

std::optional<Plan> try_plan_with(const Workload& workload, const Choices& choices,
                                  const Limits& limits, const Profile& profile) {
  Plan plan{.limits = limits, .workload = workload, .choices = choices, .profile = profile};
  const bool streams = choices.offload_fraction > choices.host_fraction;
  Tide tide{.gradients = streams ? End::low : End::high};
  bool found = predict_within(plan, tide);
  if (!found && streams) {
    tide.gradients = End::high;
    found = predict_within(plan, tide);
  }
  if (!found) return std::nullopt;
  // The last backward pass is too short for all to ride in: with room for them, they come earlier.
  const double exposed = plan.prediction.exposed_seconds[Lane::up];
  if (streams && workload.micro_batches > 1 && exposed > plan.prediction.step_seconds / 200) {
    Plan other{.limits = limits, .workload = workload, .choices = choices, .profile = profile};
    tide.early = true;
    if (predict_within(other, tide) &&
        other.prediction.step_seconds < plan.prediction.step_seconds) {
      return other;
    }
  }
  return plan;
}

Plan plan_with(const Workload& workload, const Choices& choices, const Limits& limits,
               const Profile& profile) {
  if (auto plan = try_plan_with(workload, choices, limits, profile)) return std::move(*plan);
  Plan plan{.limits = limits, .workload = workload, .choices = choices, .profile = profile};
  plan.program = build_training(workload, choices, {});
  plan.layout = lay_out(plan.program);
  make_room_for_evaluation(plan);
  add_waits(plan.program, plan.layout);
  plan.prediction = simulate(plan.program, profile);
  return plan;
}

std::int64_t tasks_of_step(const Program& program, const Workload& workload) {
  const auto tasks = program.tasks.count();
  if (workload.passes_left_out == 0) return tasks;
  // The first one of those that are alike.
  return tasks +
         workload.passes_left_out * std::count_if(program.tasks.begin(), program.tasks.end(),
                                                  [](const Task& task) { return task.micro == 1; });
}

Bytes beside_arena(const Program& program, const Workload& workload, Tier tier) {
  if (tier != Tier::host) return workload.extra(tier);
  // Generation counts its second program among the extras.
  if (workload.logits > 0)
    return workload.extra(tier) + workload.task_bytes * program.tasks.count();
  // Evaluation's program has a task a block or piece, brings a batch and the loss, and fetches
  // weights no more often than a micro-batch does.
  const auto pieces = std::count_if(program.tasks.begin(), program.tasks.end(), [](const Task& t) {
    return !t.is_transfer() && t.micro == 0 && t.piece >= 0;
  });
  const auto fetches = std::count_if(program.tasks.begin(), program.tasks.end(), [](const Task& t) {
    return t.is_transfer() && t.micro == 0 && t.block >= 0 && t.chunk < 0;
  });
  const auto evaluation = workload.blocks.count() + 2 + pieces + fetches;
  return workload.extra(tier) +
         workload.task_bytes * (tasks_of_step(program, workload) + evaluation);
}

bool fits(const Plan& plan) {
  return tasks_of_step(plan.program, plan.workload) <= kMostTasks &&
         std::ranges::all_of(plan.workload.topology->all_tiers(),
                             [&](Tier tier) { return plan.peak(tier) <= plan.limits[tier]; });
}

}  // namespace ebb::plan
