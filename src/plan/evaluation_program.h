// The program of a validation batch: the passes of training without what makes gradients. It runs
// over the arenas of the training program and finds what is persistent where that left it.
#pragma once

#include "plan/candidate.h"
#include "plan/layout.h"

namespace ebb::plan {

struct Evaluation {
  Program program{};  // with its waits
  Layout layout{};
  double seconds = 0;  // predicted, of one batch
};

// Throws std::logic_error where it does not fit the training program's arenas, which hold at least
// as much.
// `slack` is added to every object of its own; for tests, whose other objects are as much larger.
Evaluation plan_evaluation(const Plan& training, Bytes slack = 0);

}  // namespace ebb::plan
