// Whether the data of a run is what its checkpoint was trained on.
//
// A run that goes on compares twice: what is known at once (names, sizes, the digests of files that
// opening them read) before anything is loaded, and the rest before the first step. Files that were
// not read yet are read meanwhile, beside planning and loading. The first step waits for it as it
// waits for the checkpoint's own checksums: what is wrong is said while someone is looking, and
// nothing is trained, logged or saved of data that is not the run's.
#pragma once

#include <functional>

#include "engine/training_data.h"
#include "files/run/run_folder.h"
#include "files/run/training_state.h"

namespace ebb::engine {

// A checkpoint's state. Throws ConfigError that says what changed and what to do, unless changes
// are accepted.
void compare_known_data(const files::TrainingState& state, const TrainingData& data, bool accept);

// The same for all of the data; waits until it is read. Changes that are accepted are told and kept
// in the state, whose position is made one of the data as it is now. Throws IoError where a file
// cannot be read.
void compare_all_data(files::TrainingState& state, TrainingData& data, bool accept,
                      const Note& note);

// What the data holds becomes part of a state that does not have it. Waits until it is read, unless
// told not to go on: then names, sizes and beginnings have to do until the next time, which is
// told. A file that can no longer be read is told, and its digest is left out: what was trained is
// worth saving.
void record_data(
    files::TrainingState& state, TrainingData& data, const Note& note,
    const std::function<bool()>& go_on = [] { return true; });

}  // namespace ebb::engine
