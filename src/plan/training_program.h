// The program of a training step, built by small rules that compose: forward, backward, gradient
// sums, norm, updates at each site, and the tide that brings streamed states in.
#pragma once

#include "plan/choices.h"
#include "plan/program.h"
#include "plan/workload.h"

namespace ebb::plan {

// `device_budget` bounds how early streamed states ride in: as early as they fit until they leave.
// It is a wish, not a check: where even the barest order needs more, lay_out() shows it.
Program build_training(const Workload&, const Choices&, Bytes device_budget);

}  // namespace ebb::plan
