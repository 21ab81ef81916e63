// The program of a training step: the model's passes, and around them the rules (rules/) that each
// add their objects and tasks; then fetches are placed (scheduler.h) and transfers find their way
// (route.h).
#pragma once

#include "plan/choices.h"
#include "plan/program.h"
#include "plan/workload.h"

namespace ebb::plan {

// How streamed states ride in: as early as they fit into the budget until they leave. The budget is
// a wish, not a check: where even the barest order needs more, lay_out() shows it.
struct Tide {
  Bytes budget = 0;          // of the device
  Bytes host_budget = 0;     // of host memory, for states that the CPU fetches from elsewhere
  Bytes leaving_budget = 0;  // of host memory, for what waits to be written to a slow tier
  bool early = false;        // from the first micro-batch on, not in the last alone
  // From which end the step's gradients grow. From the low end, states lie above them and hold up
  // the next forward pass less; from the high end there are fewer holes.
  End gradients = End::high;
};
Program build_training(const Workload&, const Choices&, const Tide&);

}  // namespace ebb::plan
