// Runs a program on paper: the lanes in order beside each other, every task after what it waits
// for.
#pragma once

#include "base/list.h"
#include "plan/profile.h"
#include "plan/program.h"
#include "plan/time_span.h"

namespace ebb::plan {

struct Simulation {
  double step_seconds = 0;  // in steady state
  // Seconds of the last micro-batch but one: from the end of the one before to its own. Of four or
  // more, those between the first two and the last are alike.
  double pass_seconds = 0;
  PerLane<double> busy_seconds{};  // of one step
  // How long the compute lane stood still for want of each lane, in one step of the steady state.
  PerLane<double> exposed_seconds{};
};

// The program must have its waits (add_waits).
Simulation simulate(const Program&, const Profile&);

// When each task of each simulated step would run, from the first step on. On the compute lane the
// end of the last step comes a step_seconds after that of the step before.
List<TimeSpan> simulate_spans(const Program&, const Profile&);

}  // namespace ebb::plan
