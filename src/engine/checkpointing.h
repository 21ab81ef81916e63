// Saves and restores a training run: weights as a model that others can load, and beside them what
// it takes to go on as if nothing had happened.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/companions.h"
#include "engine/parameter_store.h"
#include "engine/training_state.h"
#include "io/file_system.h"

namespace ebb::engine {

// Masters' low halves and moments, in a file beside the weights.
inline constexpr std::string_view kStateName = "state.safetensors";

// Publishes `root`/step-... atomically and returns it: a model's folder that others can load, too;
// then removes all but the last `keep`. The lanes must be empty. Throws IoError; the last
// checkpoint is then still good.
std::filesystem::path save_checkpoint(io::FileSystem& files, const std::filesystem::path& root,
                                      ParameterStore& store, const Companions& companions,
                                      const TrainingState& state, int keep);

// The weights alone, as a model's folder `root`/step-...: all that can be kept where there is no
// room for the rest. Nothing can go on from it, but a new run can start with it.
std::filesystem::path save_weights(io::FileSystem& files, const std::filesystem::path& root,
                                   ParameterStore& store, const Companions& companions,
                                   std::int64_t step);

// Parameters, masters and moments, into whatever placement the store has. Moments that are `stored`
// in another format than the store's are converted once, to its nearest.
void load_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                     optim::StateFormat stored, ParameterStore& store);

}  // namespace ebb::engine
