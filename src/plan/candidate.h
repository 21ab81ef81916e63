// One plan: choices turned into a program that is laid out and simulated, whether it fits or not.
#pragma once

#include <optional>
#include <string_view>

#include "plan/choices.h"
#include "plan/layout.h"
#include "plan/profile.h"
#include "plan/program.h"
#include "plan/simulator.h"
#include "plan/topology.h"

namespace ebb::plan {

// Tasks of a step, those of passes that were left out of the program included.
std::int64_t tasks_of_step(const Program&, const Workload&);
// Plans of more than this are refused: they would take minutes to find, and gigabytes.
inline constexpr std::int64_t kMostTasks = 1 << 18;
// The program's own name among a tier's extras.
inline constexpr std::string_view kPlanExtra = "plan and queues";
// Bytes that a tier holds beside its arena: the workload's extras and, on the host, the program
// itself.
Bytes beside_arena(const Program&, const Workload&, Tier);

struct Plan {
  Limits limits{};
  Workload workload{};
  Choices choices{};
  Program program{};  // with its waits
  Layout layout{};
  Profile profile{};
  Simulation prediction{};

  // The most bytes that a tier will hold: its arena and what lives beside it.
  Bytes peak(Tier tier) const {
    return layout.size_of(tier) + beside_arena(program, workload, tier);
  }
  double tokens_per_second() const {
    return static_cast<double>(workload.tokens * workload.micro_batches) / prediction.step_seconds;
  }
};

// One plan with these choices, whether it fits the limits or not.
Plan plan_with(const Workload&, const Choices&, const Limits&, const Profile&);
// Nothing if it does not fit; that is found out sooner than by how much.
std::optional<Plan> try_plan_with(const Workload&, const Choices&, const Limits&, const Profile&);
bool fits(const Plan&);

}  // namespace ebb::plan
