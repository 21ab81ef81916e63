// The search for the fastest choices that fit: a coarse grid, then small steps from its best
// points.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plan/candidate.h"
#include "plan/choice_table.h"

namespace ebb::plan {

// Micro-batches between the first ones and the last are alike: more of them are not simulated. The
// bytes of three are those of any more.
inline constexpr std::int64_t kMostPasses = 5;

// A step, or an evaluation's batch, must be shorter by this to be worth another plan.
inline constexpr double kWorthIt = 0.998;

struct SearchBudget {
  int programs = 2400;             // the most that are built once one fits
  std::optional<Choices> start{};  // small steps from here if it fits, instead of the grid
  bool every_pass = false;         // lay out every micro-batch, however many
  std::span<const Choice> table = choice_table();
};

struct SearchResult {
  Choices choices{};  // where nothing fits, those that miss least
  bool fits = false;
  double step_seconds = 0;  // as predicted
  Limits needs{};           // what it holds at most
  int programs = 0;         // built in search of it
};

SearchResult search(const Workload&, const FixedChoices&, const Limits&, const Profile&,
                    const SearchBudget& = {});

}  // namespace ebb::plan
