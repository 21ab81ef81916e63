// Saves and restores a training run: weights as a model that others can load, and beside them what
// it takes to go on as if nothing had happened.
#pragma once

#include <filesystem>
#include <optional>

#include "base/json.h"
#include "engine/training_run.h"
#include "io/file_system.h"
#include "text/data/position.h"

namespace ebb::engine {

// What a run is besides its parameters.
struct TrainingState {
  std::int64_t step = 0;
  text::DataPosition data_position;
  std::uint64_t seed = 0;  // the whole random state: all draws are counters under it
  Json numerics_key;
};

// Publishes `root`/step-... atomically and returns it; then removes all but the last `keep`. The
// lanes must be empty. Throws IoError; the last checkpoint is then still good.
std::filesystem::path save_checkpoint(io::FileSystem& files, const std::filesystem::path& root,
                                      ParameterStore& store, const model::Config& config,
                                      const TrainingState& state, int keep);

// The state alone, without the parameters.
TrainingState read_training_state(io::FileSystem& files, const std::filesystem::path& folder);

// Parameters, masters and moments, into whatever placement the store has.
void load_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                     ParameterStore& store);

}  // namespace ebb::engine
