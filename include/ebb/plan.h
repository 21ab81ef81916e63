// What a training run would take, before it takes it.
#pragma once

#include <string>
#include <vector>

#include "ebb/model.h"
#include "ebb/train.h"

namespace ebb {

struct TierUse {
  std::string tier;  // "device", "host", "disk"
  Bytes peak = 0;    // predicted
  Bytes limit = 0;
};

// Another way to do the same training, simulated.
struct PlanAlternative {
  std::string flags;  // what to change: "--device-memory 20GiB"
  std::string note;   // what else that means, for people
  double speed = 1;   // tokens a second, as a share of the plan's
  Bytes device = 0;   // what it holds more than the plan does; less if negative
  Bytes host = 0;
};

// A plan fits: what does not is an OutOfBudget, which says which tier misses how many bytes.
struct Plan {
  double step_seconds = 0;  // predicted
  double tokens_per_second = 0;
  std::vector<TierUse> tiers;
  std::vector<std::string> flags;             // what was chosen: "--states stream", ...
  std::vector<PlanAlternative> alternatives;  // empty for Trainer::plan()
  std::string explanation;                    // all of it, for people
  // For programs and write_plan_report(): the predicted step with its lanes and memory, too.
  std::string json;
};

// Takes no memory and reads no data. `machine` is one that need not be here: the name of one that
// Ebb knows, or the file of a profile; its memory is the limit where none is given. Where
// options.trace names a file, the predicted trace is written to it. Throws OutOfBudget.
Plan make_plan(const TrainOptions& options, const std::string& machine = "");
// For a model that is open; options.model and options.tokenizer are not read.
Plan make_plan(const Model& model, const TrainOptions& options, const std::string& machine = "");

}  // namespace ebb
