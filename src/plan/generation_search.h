// The plan of generation that takes the least time within the limits: the points that can be best
// are tried through the simulator.
#pragma once

#include <functional>

#include "base/list.h"
#include "plan/generation_plan.h"

namespace ebb::plan {

struct GenerationTask {
  // Lengths of slices that may be tried, never empty.
  List<std::int64_t> slices;
  // The work with slices of that length; `by_cpu` where the CPU may compute blocks, whose scratch
  // is counted then. What it returns lives as long as the search.
  std::function<const GenerationWork&(std::int64_t slice, bool by_cpu)> work;
  std::int64_t tokens = 1;  // behind the prompt, which times are compared for
};

// Where nothing fits, the plan that misses least: fits(plan.slice) tells.
GenerationPlan search_generation(const GenerationTask&, const FixedGenerationChoices&,
                                 const Limits&, const Profile&);

// Even parts of a prompt, from as long as a slice may be down to some tens of tokens.
List<std::int64_t> slices_of(std::int64_t prompt_tokens);

}  // namespace ebb::plan
