// What a run is besides its parameters, in its checkpoint's file training.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/json.h"
#include "io/file_system.h"
#include "text/data/position.h"

namespace ebb::files {

inline constexpr std::string_view kTrainingName = "training.json";

struct TrainingState {
  std::int64_t step = 0;
  text::DataPosition data_position;
  std::uint64_t seed = 0;  // the whole random state: all draws are counters under it
  Json numerics_key;
  // What was trained on, as TrainingData::contents() says it; null: not known yet. Of checkpoints
  // that kept less: {"beginnings": digest}, as DataSet::beginnings_digest() makes it.
  Json data = nullptr;
  // Changes of the data that the user accepted: [{"step": 3, "changes": ["..."]}].
  Json accepted_changes = Json::array();
};

Json to_json(const TrainingState& state);

// The state alone, without the parameters. Throws FormatError where it is not one.
TrainingState read_training_state(io::FileSystem& files, const std::filesystem::path& folder);

}  // namespace ebb::files
