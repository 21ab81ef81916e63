// Which files a checkpoint of a run is made of.
#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "files/model/source.h"
#include "files/run/training_state.h"
#include "files/weight_files.h"
#include "io/file_system.h"

namespace ebb::files {

// Masters' low halves and moments, in a file beside the weights.
inline constexpr std::string_view kStateName = "state.safetensors";

// What is there whatever else came with the model: where weights alone were saved, and in every
// checkpoint.
inline constexpr std::array<std::string_view, 2> kModelFiles = {kWeightsName, kConfigName};
inline constexpr std::array<std::string_view, 4> kCheckpointFiles = {kWeightsName, kConfigName,
                                                                     kStateName, kTrainingName};

// Compares all files with the manifest, which must have those of a checkpoint. Throws FormatError
// that says what is damaged and where to resume from instead.
void verify_checkpoint(io::FileSystem& files, const std::filesystem::path& folder);

}  // namespace ebb::files
