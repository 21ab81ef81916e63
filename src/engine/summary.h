// What a run measured, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/runtime.h"
#include "engine/training_run.h"

namespace ebb::engine {

struct RunFigures {
  std::vector<double> losses;  // of the steps of this run
  std::vector<double> step_seconds;
  std::int64_t tokens = 0;
  double seconds_waiting_for_data = 0;
};

// The lanes must be empty.
std::string summarize(TrainingRun& run, const Runtime& runtime, const Json& numerics_key,
                      const RunFigures& figures);

}  // namespace ebb::engine
