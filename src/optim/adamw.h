// AdamW as its user sets it, and the numbers of one step of it. The optim room decides what the
// optimizer computes (rules, schedules, clipping, the layout of states); it does not compute on
// arrays (kernels does), and does not know where they are or when they move (engine does).
#pragma once

#include <cstdint>

#include "kernels/optimizer_ops.h"

namespace ebb::optim {

struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

// Throws ConfigError that names the flag, the value and the range.
void validate(const AdamW& adamw);

// The numbers of step `step`, counted from 1, made in double and rounded once to float. Parameters
// that do not decay (biases, norms) get a decay factor of exactly 1.
kernels::AdamWStep adamw_step(const AdamW& adamw, double learning_rate, std::int64_t step,
                              bool decays);

}  // namespace ebb::optim
