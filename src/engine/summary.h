// The figures that a run measured, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/runtime.h"
#include "engine/start_times.h"
#include "engine/training_run.h"

namespace ebb::engine {

struct RunFigures {
  std::vector<double> losses;  // of the steps of this run
  std::vector<double> step_seconds;
  std::int64_t tokens = 0;
  std::int64_t counted_tokens = 0;  // of them, targets that carry loss
  text::LeftOut left_out;
  Json accepted_data_changes = Json::array();  // as files::TrainingState's, of the whole run
  double seconds_waiting_for_data = 0;
  StartTimes start;
  std::vector<double> validation_losses;
  double validation_seconds = 0;
};

// The lanes must be empty.
std::string summarize(TrainingRun& run, const Runtime& runtime, const Json& numerics_key,
                      const RunFigures& figures);

}  // namespace ebb::engine
