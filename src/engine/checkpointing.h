// Saves and restores a training run: weights as a model that others can load, and beside them what
// it takes to go on as if nothing had happened.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "checkpoint/weight_files.h"
#include "engine/companions.h"
#include "engine/parameter_store.h"
#include "engine/training_state.h"
#include "io/file_system.h"

namespace ebb::engine {

// Masters' low halves and moments, in a file beside the weights.
inline constexpr std::string_view kStateName = "state.safetensors";

// What is there whatever else came with the model: where weights alone were saved, and in every
// checkpoint.
inline constexpr std::array<std::string_view, 2> kModelFiles = {checkpoint::kWeightsName,
                                                                kConfigName};
inline constexpr std::array<std::string_view, 4> kCheckpointFiles = {
    checkpoint::kWeightsName, kConfigName, kStateName, kTrainingName};

// Compares all files with the manifest, which must have those of a checkpoint. Throws FormatError
// that says what is damaged and where to resume from instead.
void verify_checkpoint(io::FileSystem& files, const std::filesystem::path& folder);

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
