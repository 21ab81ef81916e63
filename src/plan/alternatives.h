// Alternatives to a plan, and what each would cost or save. Every line was simulated.
#pragma once

#include <string>

#include "base/list.h"
#include "plan/candidate.h"
#include "plan/choice_table.h"

namespace ebb::plan {

// The same training with another setting that the plan room knows nothing of, such as a state
// format: the code that makes workloads makes these.
struct Variant {
  std::string flags;
  Workload workload{};
  Profile profile{};
};

struct Alternative {
  std::string flags;  // what to change: "--device-memory 20GiB"
  std::string note;   // what else that means, for people
  Choices choices{};  // its own plan
  double speed = 1;   // tokens a second, as a share of the plan's
  Bytes device = 0;   // what it holds more than the plan does; less if negative
  Bytes host = 0;
};

// More and less device memory, other sites, more tokens a step, and the variants; those that fit.
// What the user fixed stays fixed, but for the one thing that is changed.
List<Alternative> alternatives_to(const Plan&, const FixedChoices&, const List<Variant>&);

std::string explain(const List<Alternative>&);

}  // namespace ebb::plan
