// What the numbers of a run may depend on: stored with it and compared on resume. Limits,
// placement, chunk size, threads and timing are not in it.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "engine/runtime.h"
#include "engine/training_run.h"

namespace ebb::engine {

Json numerics_key(const Runtime& runtime, const TrainingSettings& settings, std::uint64_t seed,
                  const Json& data);

// The key's field that a run may change when it goes on: its states are converted.
inline constexpr const char* kStateFormatField = "state_format";

struct KeyDifference {
  std::string field;  // "optimizer.learning_rate"
  std::string stored;
  std::string given;
  // It is the machine or Ebb's version that differs, not the run: it can go on, though not
  // bit-identically.
  bool machine = false;
};

std::vector<KeyDifference> compare_keys(const Json& stored, const Json& given);

}  // namespace ebb::engine
