// A model ready to be evaluated: plan, arenas, lanes and weights, without anything that training
// would need. It takes the batches it is given; files, data and people are others' business.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "engine/parameter_store.h"
#include "engine/planned_memory.h"
#include "engine/runtime.h"
#include "engine/training_run.h"
#include "engine/training_tasks.h"
#include "exec/executor.h"
#include "files/model/source.h"
#include "model/decoder.h"
#include "plan/trace.h"
#include "text/data/batch.h"

namespace ebb::engine {

class EvaluationRun {
 public:
  // Takes all memory of a plan that was made of these settings (evaluation_plan.h). Weights are
  // undefined until load().
  EvaluationRun(Runtime& runtime, TrainingSettings settings, plan::Plan plan);

  // Reads the weights, or makes a preset's, which are random. `progress` is told how many more are
  // there; what it throws ends the loading.
  void load(
      io::FileSystem& files, const files::ModelSource& source,
      const std::function<void(std::size_t)>& progress = [](std::size_t) {});

  // Queues a batch behind those under way, of which there is at most one more then. Throws the
  // first failure of any lane, and NumericsError where the loss of a batch is not finite.
  void add(const text::Batch& batch);
  // Waits for all batches.
  void finish();

  // Of the batches that have certainly ended, added up in their order; all of them after finish().
  const Evaluation& total() const { return total_; }
  std::int64_t batches_done() const { return done_; }

  const plan::Plan& plan() const { return plan_; }
  const model::Parameters& parameters() const { return parameters_; }
  exec::Executor& executor() { return executor_; }
  // The most bytes in use so far: those that tasks said they touched, and what was reserved beside
  // the arenas.
  Bytes measured_peak(plan::Tier tier) const { return memory_.measured_peak(tier); }
  // When tasks ran in the last settings.trace_steps batches; refers to the plan. After finish().
  plan::Trace trace() const;

 private:
  void run_task(TaskRun& run);
  // Takes in the losses of batches before that one.
  void take_in(std::int64_t before);
  static std::size_t slot(std::int64_t batch) { return to_size(batch % 2); }

  Runtime& runtime_;
  TrainingSettings settings_;
  plan::Plan plan_;
  model::Parameters parameters_;
  model::Decoder decoder_;
  states::ChunkMap map_;
  PlannedMemory memory_;
  TrainingTasks tasks_;
  exec::Executor executor_;
  ParameterStore store_;
  plan::TaskId load_task_ = -1;  // the one that brings a batch's tokens
  // By slot: written where the batch is placed, and by its last task.
  std::array<std::int64_t, 2> loss_tokens_{};
  std::array<double, 2> loss_sums_{};
  Evaluation total_;
  std::int64_t done_ = 0;
};

}  // namespace ebb::engine
