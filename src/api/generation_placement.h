// What the user wrote of where generation's weights and cache live.
#pragma once

#include "ebb/generate.h"
#include "engine/generation_plan.h"
#include "io/file_system.h"

namespace ebb::api {

// Puts the words into the settings, whose limits and configuration are set. `files` says what disks
// have left; null where the folders are another machine's. Throws ConfigError that names the flag.
void set_placement(const GenerationPlacement& placement, io::FileSystem* files,
                   engine::GeneratorSettings& settings);

}  // namespace ebb::api
