// When a task of a step ran, or would run.
#pragma once

#include <cstdint>

#include "plan/program.h"

namespace ebb::plan {

struct TimeSpan {
  TaskId task = -1;
  std::int64_t step = 0;
  double start = 0;  // seconds of any clock, one for all lanes
  double end = 0;
};

}  // namespace ebb::plan
