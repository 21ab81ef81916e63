// Whether a run may go on from a checkpoint: its settings beside those of now.
#pragma once

#include "base/json_fwd.h"
#include "base/note.h"
#include "files/run/training_state.h"
#include "states/format.h"
#include "states/schedule.h"

namespace ebb::engine {

// Compares the checkpoint's numerics key with the run's. `note` hears what may differ and what that
// means: also another schedule, where it has had the same rates so far. Throws ConfigError that
// lists the settings that must not differ.
void compare_settings(const files::TrainingState& state, const Json& key,
                      const states::Schedule& schedule, const Note& note);

// In which the checkpoint's states are stored. Throws FormatError.
states::StateFormat stored_format(const files::TrainingState& state);

}  // namespace ebb::engine
