#include "engine/evaluation_plan.h"

#include <fmt/format.h>

#include "base/list.h"
#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/planned_memory.h"
#include "engine/settings.h"
#include "engine/workload.h"
#include "exec/disk_space.h"
#include "plan/explain.h"
#include "plan/refusal.h"

namespace ebb::engine {
namespace {

// A piece of a tensor as it is stored, as fp32 and as bf16.
constexpr Bytes kWeightPieceBytes = 10 * ParameterStore::kPiece;
// The batch that is being made and the one that is done.
constexpr Bytes kBatches = 2;

plan::Plan find_plan(kernels::CountingOps& ops, const plan::Profile& profile,
                     const TrainingSettings& s) {
  EvaluationShape shape{
      .dtype = s.dtype, .extras = s.extras, .task_bytes = task_bytes(s.trace_steps)};
  const Bytes batch = 2 * 4 * s.shape.tokens();
  shape.extras.push_back({plan::Tier::host, "batches", kBatches * batch});
  shape.extras.push_back({plan::Tier::host, "loading", kWeightPieceBytes});
  shape.extras.push_back({plan::Tier::host, "staging", ParameterStore::kStagingBytes});
  plan::Workload work =
      evaluation_workload(make_decoder(s), model::parameters_of(s.config), ops, shape);
  work.topology = s.topology;
  return plan::find_evaluation(work, s.fixed, s.limits, speeds_for(profile, s));
}

// What was tried, and helps.
List<std::string> remedies_for(kernels::CountingOps& ops, const plan::Profile& profile,
                               const TrainingSettings& s) {
  List<std::string> remedies;
  const auto fits_with = [&](const TrainingSettings& other, const std::string& remedy,
                             bool show_flags = false) {
    const plan::Plan plan = find_plan(ops, profile, other);
    if (!fits(plan)) return false;
    remedies.push_back(fmt::format("{}{}{}", remedy, show_flags ? ": fits with " : "",
                                   show_flags ? plan::evaluation_flags(plan.choices) : ""));
    return true;
  };
  TrainingSettings freer = s;
  freer.fixed = {.below = s.fixed.below};
  fits_with(freer, "leave the placement to the plan (--weights auto --vocabulary auto)", true);
  TrainingSettings smaller = freer;
  bool found = false;
  while (!found && smaller.shape.rows > 1) {
    smaller.shape.rows /= 2;
    found = fits_with(smaller, fmt::format("--micro-batch {}", smaller.shape.rows));
  }
  while (!found && smaller.shape.sequence > 1) {
    smaller.shape.sequence /= 2;
    found = fits_with(smaller, fmt::format("--sequence {} --micro-batch 1 (the loss is another: "
                                           "tokens see less before them)",
                                           smaller.shape.sequence));
  }
  if (s.dtype == DType::f32) {
    TrainingSettings other = freer;
    other.dtype = other.gradient_type = DType::bf16;
    fits_with(other, "--dtype bf16");
  }
  return remedies;
}

// What all weights take there, and of each chunk some grains that are not full.
Bytes weights_on_disk(const TrainingSettings& s) {
  const std::int64_t parameters = model::parameters_of(s.config).count();
  return parameters * size_of(s.dtype) + chunks_at_most(s) * 2 * exec::DiskSpace::kGrain;
}

}  // namespace

TrainOptions as_training(const EvaluateOptions& o) {
  TrainOptions t;
  t.model = o.model;
  t.data = o.data;
  t.tokenizer = o.tokenizer;
  t.packing = o.packing;
  t.loss = o.loss;
  t.on_bad_data = o.on_bad_data;
  t.text_column = o.text_column;
  t.messages_column = o.messages_column;
  t.sequence = o.sequence;
  t.micro_batch = o.micro_batch;
  t.device_memory = o.device_memory;
  t.host_memory = o.host_memory;
  t.disk = o.disk;
  t.weights = o.weights;
  t.vocabulary = o.vocabulary;
  t.disk_weights = o.disk_weights;
  t.chunk_parameters = o.chunk_parameters;
  t.depth = o.depth;
  t.trace = o.trace;
  t.trace_steps = kTracedBatches;
  return t;
}

TrainingSettings evaluation_settings(const EvaluateOptions& options, const model::Config& config,
                                     DType dtype, const MachineMemory& machine,
                                     io::FileSystem* files,
                                     std::function<void(const std::string&)> note) {
  TrainingSettings s = training_settings(as_training(options), config, machine);
  s.dtype = s.gradient_type = dtype;
  s.extras.clear();  // staging and batches of training
  if (!options.disk.empty()) {
    add_disk(s, find_disks(options.disk, files), std::move(note), {}, weights_on_disk(s));
  }
  return s;
}

std::string note_on_length(const TrainingSettings& s) {
  if (s.shape.sequence <= s.config.max_positions) return {};
  return fmt::format(
      "--sequence {}: the model was made for {} positions; behind them it has learned nothing, and "
      "its loss is high",
      s.shape.sequence, s.config.max_positions);
}

plan::Plan plan_evaluation(kernels::CountingOps& ops, const plan::Profile& profile,
                           const TrainingSettings& s) {
  plan::Plan plan = find_plan(ops, profile, s);
  if (fits(plan)) return plan;
  throw plan::refuse(plan, plan::evaluation_flags(plan.choices), remedies_for(ops, profile, s));
}

plan::Plan plan_evaluation(Runtime& runtime, const TrainingSettings& s) {
  kernels::CountingOps ops(runtime.device_model());
  return plan_evaluation(ops, runtime.profile(), s);
}

}  // namespace ebb::engine
