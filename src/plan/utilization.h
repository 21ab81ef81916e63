// Utilization: how near a step comes to one that does nothing but the model's matrix products and
// attention, all of it at the speed that was measured for the device's matrix products. It is
// comparable over models, batches and machines.
#pragma once

#include <optional>

#include "plan/candidate.h"

namespace ebb::plan {

// Operations of a step, all micro-batches: products and attention of forward and backward. Blocks
// that run forward twice do no more for the model, so that work is not counted.
double model_flops(const Workload&);

// That of a step of so many seconds, as a share.
double utilization(const Plan&, double step_seconds);

// The same where the speed of matrix products was measured on this machine, else nothing.
std::optional<double> measured_utilization(const Plan&, double step_seconds);

}  // namespace ebb::plan
