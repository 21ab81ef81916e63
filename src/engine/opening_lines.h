// What a person is told before the first step, in three lines.
#pragma once

#include <cstdint>
#include <string>

#include "ebb/train.h"
#include "engine/training_run.h"

namespace ebb::engine {

// What is trained, where its bytes are, and how fast it is predicted to be; without a newline at
// the end. `done`: steps that an earlier run has made. The plan's own explanation has the rest.
std::string opening_lines(const plan::Plan& plan, const TrainingSettings& settings,
                          const TrainOptions& options, std::int64_t done);

}  // namespace ebb::engine
