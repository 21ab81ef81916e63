// Turns what the user wrote into what a run is made of.
#pragma once

#include <string_view>

#include "ebb/train.h"
#include "engine/training_run.h"

namespace ebb::engine {

// Host memory for pieces of tensors on their way from and to files. Converting states takes most:
// those of a piece in two formats, at 10 and 6 bytes a parameter, and two moments as fp32.
inline constexpr Bytes kStagingBytes = 24 * ParameterStore::kPiece;
// The extra of batches that wait to be trained on, which grows with a step's tokens.
inline constexpr std::string_view kBatchesExtra = "batches";
// Batches that wait ready for each micro-batch of a step.
inline constexpr int kBatchesAhead = 2;

// Throws ConfigError that names the flag, what was found and what to write.
// `machine` is what there is where the user set no limit.
TrainingSettings training_settings(const TrainOptions& options, const model::Config& config,
                                   const MachineMemory& machine);

// The number itself. Throws ConfigError if it is no number of threads.
int check_threads(int threads);

// The type to compute in; `otherwise` where it is automatic.
DType dtype_of(FloatType type, DType otherwise);

}  // namespace ebb::engine
