// What a run's folder keeps so that a report can be made of it alone: plan.json when it begins, and
// step.json once one of its steps was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/json_fwd.h"
#include "base/note.h"
#include "ebb/train.h"
#include "engine/training_run.h"
#include "io/file_system.h"

namespace ebb::engine {

class RunPictures {
 public:
  // The steps of this process's run after which one is drawn: by then one that is like all others
  // has passed, with the step before and the one behind it.
  static constexpr std::int64_t kSteps = 5;

  // Of a run that is drawn, and of a plan that says what it will take: times of tasks are kept, and
  // counted, also where no trace is asked for.
  static void keep_times(const TrainOptions& options, TrainingSettings& settings);

  RunPictures(io::FileSystem& files, std::filesystem::path folder, Note note);

  // A file that cannot be written is no reason to end a run: it is told.
  void write_plan(const TrainingRun& run, const Runtime& runtime, const TrainOptions& options,
                  const Json& settings, const std::string& words);

  // After each step and at the end of a run; `steps` are those of this process. Draws the first
  // time that there are kSteps, or at the end: then it waits for what is under way, throws what
  // failed there, and returns true.
  bool after_step(TrainingRun& run, std::int64_t steps, bool at_end);

 private:
  void write(const char* name, const Json& json);

  io::FileSystem& files_;
  std::filesystem::path folder_;
  Note note_;
  bool drawn_ = false;
};

}  // namespace ebb::engine
