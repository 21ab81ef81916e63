// The plan of an evaluation, of a model's own code and within limits.
#pragma once

#include <functional>
#include <string>

#include "ebb/evaluate.h"
#include "ebb/train.h"
#include "engine/runtime.h"
#include "engine/training_run.h"
#include "io/file_system.h"
#include "kernels/counting_ops.h"
#include "plan/evaluation_plan.h"

namespace ebb::engine {

// Batches that a trace keeps where one is asked for.
inline constexpr std::int64_t kTracedBatches = 8;

// How training would read the data and lay out its batches.
TrainOptions as_training(const EvaluateOptions& options);

// Throws ConfigError that names the flag, what was found and what to write. `machine` is what there
// is where the user set no limit; `files` null where the options' disks are another machine's.
TrainingSettings evaluation_settings(const EvaluateOptions& options, const model::Config& config,
                                     DType dtype, const MachineMemory& machine,
                                     io::FileSystem* files,
                                     std::function<void(const std::string&)> note = {});

// What to say of rows that are longer than the model's positions; empty where there is nothing.
std::string note_on_length(const TrainingSettings& settings);

// Of the settings those of optimizer, gradients and activations are not read. Throws OutOfBudget:
// the bytes by purpose on each tier, what is missing, and what would help, each of it tried.
plan::Plan plan_evaluation(kernels::CountingOps& ops, const plan::Profile& profile,
                           const TrainingSettings& settings);
plan::Plan plan_evaluation(Runtime& runtime, const TrainingSettings& settings);

}  // namespace ebb::engine
