// Saves and restores a training run: weights as a model that others can load, and beside them what
// it takes to go on as if nothing had happened.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "engine/parameter_store.h"
#include "files/model/sidecar_files.h"
#include "files/run/checkpoint_files.h"
#include "files/run/training_state.h"
#include "files/weight_files.h"
#include "io/file_system.h"

namespace ebb::engine {

// Publishes `root`/step-... atomically and returns it: a model's folder that others can load, too;
// then removes all but the last `keep`. The lanes must be empty. Throws IoError; the last
// checkpoint is then still good.
std::filesystem::path save_checkpoint(io::FileSystem& files, const std::filesystem::path& root,
                                      ParameterStore& store,
                                      const files::SidecarFiles& sidecar_files,
                                      const files::TrainingState& state, int keep);

// The weights alone, as a model's folder `root`/step-...: all that can be kept where there is no
// room for the rest. Nothing can go on from it, but a new run can start with it.
std::filesystem::path save_weights(io::FileSystem& files, const std::filesystem::path& root,
                                   ParameterStore& store, const files::SidecarFiles& sidecar_files,
                                   std::int64_t step);

// Parameters, masters and moments, into whatever placement the store has. Moments that are `stored`
// in another format than the store's are converted once, to its nearest.
void load_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                     states::StateFormat stored, ParameterStore& store);

}  // namespace ebb::engine
