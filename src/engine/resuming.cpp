#include "engine/resuming.h"

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "engine/numerics_key.h"

namespace ebb::engine {

void compare_settings(const files::TrainingState& state, const Json& key, const Note& note) {
  std::string wrong;
  for (const KeyDifference& difference : compare_keys(state.numerics_key, key)) {
    if (difference.field == "data.digest" || difference.field == "data.content") {
      continue;  // compared file by file
    }
    if (difference.field == kStateFormatField) {
      note(fmt::format("The checkpoint's states are {}: they are converted to {}, once",
                       difference.stored, difference.given));
      continue;
    }
    const std::string line = fmt::format("\n  {}: {} in the checkpoint, {} now", difference.field,
                                         difference.stored, difference.given);
    if (difference.machine) {
      note(
          "Resuming, not bit-identical: another machine, or another version of Ebb, than the "
          "checkpoint's:" +
          line);
    } else {
      wrong += line;
    }
  }
  if (!wrong.empty()) {
    throw ConfigError("--resume: the checkpoint was made with other settings:" + wrong +
                      "\nGive the same settings, or start a new run in another --out.");
  }
}

states::StateFormat stored_format(const files::TrainingState& state) {
  using enum states::StateFormat;
  const Json stored = state.numerics_key.value(kStateFormatField, Json());
  for (const states::StateFormat format : {exact, bf16, int8}) {
    if (stored == kernels::stored_name_of(format)) return format;
  }
  throw FormatError(fmt::format("{}: the numerics key's {} should be {}, {} or {}, found {}",
                                files::kTrainingName, kStateFormatField,
                                kernels::stored_name_of(exact), kernels::stored_name_of(bf16),
                                kernels::stored_name_of(int8), stored.dump()));
}

}  // namespace ebb::engine
