// A training run, all at once or a step at a time.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "ebb/model.h"
#include "ebb/plan.h"
#include "ebb/train.h"

namespace ebb {

// What people write for TrainOptions::save_every: "500" (steps), "10min", "auto", "end", or "0" for
// never. Throws ConfigError that names --save-every.
SaveEvery parse_save_every(const std::string& text);

// Calls come from one thread at a time; several trainers may work at once, each in memory and a
// folder (options.out) of its own. What is whole in memory when a call fails is saved before its
// ebb::Error is thrown, and the text says where; after that a trainer may only be destroyed.
class Trainer {
 public:
  // Takes the run's folder, opens the model and looks at the data; no memory for training yet. The
  // observer, where there is one, must outlive the trainer. `stop` ends the run after the step
  // under way; before the first step, when there is nothing to save, calls throw Cancelled.
  explicit Trainer(const TrainOptions& options, TrainObserver* observer = nullptr,
                   std::stop_token stop = {});
  // With a model that is open; options.model, tokenizer and verify are not read.
  Trainer(const Model& model, const TrainOptions& options, TrainObserver* observer = nullptr,
          std::stop_token stop = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // The plan of this run. Throws OutOfBudget. A checkpoint to go on from is checked before.
  Plan plan();

  // All steps that are left, and finish().
  TrainSummary run();

  // One step; the first call takes the memory and fills the weights. Validates and saves where the
  // options say so. Nothing when all steps are done or the run was stopped.
  std::optional<StepReport> step();
  // The mean loss over what the options say to validate on; nothing where they say nothing.
  std::optional<double> evaluate();
  // Makes a checkpoint of now and returns its folder. Throws IoError where it cannot, and the run
  // may go on.
  std::string save();
  // Saves, validates and sums up. Once, at the end.
  TrainSummary finish();

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace ebb
