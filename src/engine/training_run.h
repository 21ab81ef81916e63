// A training run in memory: plan, arenas, lanes and parameters. It trains on the batches it is
// given; files, data and people are others' business.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/parameter_store.h"
#include "engine/planned_memory.h"
#include "engine/runtime.h"
#include "engine/training_tasks.h"
#include "exec/executor.h"
#include "kernels/counting_ops.h"
#include "model/decoder.h"
#include "plan/alternatives.h"
#include "plan/evaluation_program.h"
#include "plan/planner.h"
#include "plan/trace.h"
#include "states/rules.h"
#include "states/schedule.h"
#include "text/data/batch.h"

namespace ebb::dist {
class Communicator;
}

namespace ebb::engine {

struct TrainingSettings {
  model::Config config;
  model::Shape shape;
  std::int64_t accumulate = 1;  // micro-batches of a step, over all ranks
  DType dtype = DType::bf16;
  DType gradient_type = DType::bf16;
  states::StateFormat format = states::StateFormat::exact;
  states::Rule rule;
  std::uint64_t seed = 0;  // compact formats round with it
  // Micro-batches of which each group's gradients are added up first, then the groups' sums: so
  // many groups; 0: each micro-batch is one. A divisor of `accumulate`.
  std::int64_t gradient_groups = 0;
  // The ranks that train together; null: this one alone. Must outlive the run. All ranks make the
  // run and call its functions in the same order; limits and placements are each one's own.
  dist::Communicator* ranks = nullptr;
  states::Schedule schedule;
  double clip = 1.0;
  plan::Limits limits;
  plan::FixedChoices fixed;
  std::vector<plan::Extra> extras;  // what the caller holds for the run: data, tokenizer, batches
  exec::Disturbance disturbance;
  // The machine's tiers. Device and host are the runtime's; the caller that adds one makes its
  // memory.
  std::shared_ptr<const plan::Topology> topology = plan::device_and_host();
  PlannedMemory::MakeSpace make_space{};
  std::int64_t trace_steps = 0;  // the last steps, of which a trace is kept

  // How a step is divided among the ranks.
  plan::Ranks divided() const;
  states::StateKind state_kind() const { return {format, dtype, states::moments_of(rule)}; }
};

// Losses add up over batches; their mean is the sum over the count.
struct Evaluation {
  double loss_sum = 0;
  std::int64_t loss_tokens = 0;  // targets that the sum is over
};

// What to say of sequences that are longer than the model's positions, which are allowed where
// positions are computed and refused where they are a table; empty where there is nothing to say.
std::string note_on_positions(const TrainingSettings&);

// What a run and an evaluation on its own are made of alike. Throws ConfigError where the sequence
// is longer than a table of positions.
model::Decoder make_decoder(const TrainingSettings&);
// The figures that differ by type and format, where the profile has them.
plan::Profile speeds_for(plan::Profile, const TrainingSettings&);
// Which parameters the plan's chunks hold.
states::ChunkMap map_chunks(const model::Parameters&, const std::vector<plan::Chunk>&,
                            const TrainingSettings&);

// The plan alone, without taking any memory: on a machine of that profile, whose ops are counted.
plan::Plan plan_training(kernels::CountingOps& ops, const plan::Profile& profile,
                         const TrainingSettings& settings);
plan::Plan plan_training(Runtime& runtime, const TrainingSettings& settings);
// Alternatives: other limits and placements, other state formats.
std::vector<plan::Alternative> alternatives_to(const plan::Plan& plan, kernels::CountingOps& ops,
                                               const plan::Profile& profile,
                                               const TrainingSettings& settings);

class TrainingRun {
 public:
  // Plans (or throws OutOfBudget) and takes all memory. Parameters are undefined until filled.
  TrainingRun(Runtime& runtime, TrainingSettings settings);
  // Makes the run of a plan that was made of these settings.
  TrainingRun(Runtime& runtime, TrainingSettings settings, plan::Plan plan);
  ~TrainingRun();

  // One step with `accumulate` batches, of which each rank takes its own. Returns when the loss and
  // the norm are known; the rest of the step may still be under way. Throws the first failure of
  // any lane; settle() then says whether weights and states are still whole.
  StepResult step(std::span<const text::Batch> batches);
  // The loss of one batch with the weights as they are; nothing else changes. A program of its own
  // over the same memory. Waits for what is under way.
  Evaluation evaluate(const text::Batch& batch);
  // Waits for all that is under way.
  void finish();
  // The same after a failure. Whether weights and states are whole, those of steps_done(): a norm
  // that is not finite touches nothing, what fails outside of the lanes does not either, and a step
  // that fails before its first update has changed nothing yet.
  bool settle();

  // Steps done so far in the life of the model; sets the schedule and the bias corrections.
  std::int64_t steps_done() const { return steps_done_; }
  void set_steps_done(std::int64_t steps) { steps_done_ = steps_before_ = steps; }
  double learning_rate(std::int64_t step) const {
    return states::learning_rate(settings_.schedule, step);
  }

  ParameterStore& store() { return store_; }
  const TrainingSettings& settings() const { return settings_; }
  const plan::Plan& plan() const { return plan_; }
  const exec::Executor& executor() const { return executor_; }
  // Bytes that this rank's tasks have sent to others.
  Bytes network_bytes() const;
  // Seconds that evaluate() is predicted to take.
  double evaluation_seconds() const { return evaluation_.seconds; }
  const memory::Ledger& ledger(plan::Tier tier) const { return memory_.ledger(tier); }

  // When tasks ran in the last settings().trace_steps steps. Waits for all that is under way, and
  // takes it that some of it may fail.
  plan::Trace trace();

  // Lanes empty: from now on no trace is kept, and its memory is free.
  void forget_times();

  // The most bytes in use so far: those that tasks said they touched, and what was reserved beside
  // the arenas.
  Bytes measured_peak(plan::Tier tier) const { return memory_.measured_peak(tier); }
  // What the system gave the tier's arena pages for; nothing for what is not the process's memory.
  std::optional<Bytes> touched_bytes(plan::Tier tier) const { return memory_.touched_bytes(tier); }

 private:
  // Into the memory that the micro-batch is loaded from.
  void place(const text::Batch& batch, std::int64_t micro);
  // Other ranks are told where the work fails on this one.
  void or_tell(const std::function<void()>& work);
  StepResult step_alike(std::span<const text::Batch> batches);

  TrainingSettings settings_;
  std::unique_ptr<dist::Communicator> network_;  // of the lane; null where there is one rank
  plan::Plan plan_;
  model::Parameters parameters_;
  model::Decoder decoder_;
  states::ChunkMap map_;
  plan::Evaluation evaluation_;
  PlannedMemory memory_;
  TrainingTasks tasks_;
  exec::Executor executor_;
  ParameterStore store_;
  plan::TaskId norm_task_ = -1;
  std::int64_t steps_done_ = 0;
  std::int64_t steps_before_ = 0;  // this run
  bool failed_ = false;            // others were told
};

}  // namespace ebb::engine
