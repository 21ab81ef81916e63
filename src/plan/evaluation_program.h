// The program of evaluation: the passes of training without what makes gradients. Training
// validates with it, over the arenas of its own program, where it finds what is persistent as that
// left it. Where nothing is trained it stands alone (evaluation_plan.h).
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

// The arenas that training and evaluation take together: training's own, but for a rank that has no
// micro-batch to train on, which evaluates all the same.
PerTier<Bytes> sizes_with_evaluation(const Plan& training);

// The program alone: weights live where the choices say, and come up as deep as they say. A last
// task on the CPU takes in the loss, so that the next batch may be under way before it is read.
Program build_evaluation(const Workload&, const Choices&);

}  // namespace ebb::plan
