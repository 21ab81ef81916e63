// One row of `ebb bench train`: a run from the same start, measured, and taken down again, so that
// the next row finds the machine as this one did.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/median.h"
#include "engine/runtime.h"
#include "engine/start_times.h"
#include "engine/training_run.h"
#include "io/file_system.h"
#include "measure/bench/peak.h"
#include "measure/bench/training_rows.h"

namespace ebb::measure {

// A plan and what a run by it took.
struct MeasuredPlan {
  std::string name{};             // of a hand-made one
  std::string flags{};            // that reproduce the plan
  std::array<double, 3> sites{};  // shares of the parameters, by plan::Site
  plan::Choices choices{};
  double predicted_seconds = 0;        // of a step
  std::vector<double> step_seconds{};  // without the warm-up
  std::optional<double> utilization{};
  Peak device{};
  Peak host{};
  std::optional<Peak> disk{};
  engine::StartTimes start{};
  std::string digest{};  // of the weights after all steps

  double seconds() const { return median(step_seconds); }  // of a step
};

struct RowResult {
  TrainingRow row{};
  std::int64_t parameters = 0;
  double model_flops = 0;  // of a step
  std::string refusal{};   // why there is no more than this: it does not fit, or
  bool failed = false;     // the device failed
  std::optional<MeasuredPlan> chosen{};
  std::vector<MeasuredPlan> hand_made{};
  std::optional<double> share_of_resident{};  // of the speed of the same row that is resident
};

// For one thread. One run at a time has memory. That it does not fit, or that the device fails, is
// a row's result and not an exception.
class RowRunner {
 public:
  // What comes next and the share of the row that is behind.
  using Tell = std::function<void(const std::string& now, double done)>;

  // Keeps references. The machine's memory as it is now is the limit of all rows.
  RowRunner(engine::Runtime& runtime, io::FileSystem& files, const TrainBenchOptions& options);

  // `found` hears of every hand-made plan as soon as it is measured.
  RowResult run(const TrainingRow& row, const Tell& tell,
                const std::function<void(const std::string&)>& found);

 private:
  // What the row says as settings. A limit that is a share of the states takes a plan to be found.
  engine::TrainingSettings settings_of(const TrainingRow& row);
  // Takes memory, runs warm-up and steps, and gives all of it back. `start` has the times of what
  // came before.
  MeasuredPlan measure(const engine::TrainingSettings& settings, plan::Plan plan,
                       const engine::StartTimes& start, const Tell& tell);

  engine::Runtime& runtime_;
  io::FileSystem& files_;
  const TrainBenchOptions& options_;
  engine::MachineMemory machine_;
};

}  // namespace ebb::measure
