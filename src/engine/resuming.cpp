#include "engine/resuming.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "engine/numerics_key.h"

namespace ebb::engine {

namespace {

constexpr std::string_view kScheduleField = "optimizer.schedule.";

// The schedule of a numerics key; nothing where it is none that this version knows.
std::optional<states::Schedule> schedule_in(const Json& key) {
  try {
    const Json& stored = key.at("optimizer").at("schedule");
    states::Schedule schedule;
    schedule.shape = states::parse_schedule(stored.at("shape").get<std::string>());
    schedule.peak = stored.at("peak").get<double>();
    schedule.warmup = stored.at("warmup").get<std::int64_t>();
    // A constant one has no more.
    if (schedule.shape == states::Schedule::Shape::constant) return schedule;
    schedule.steps = stored.at("steps").get<std::int64_t>();
    schedule.final_share = stored.at("final_share").get<double>();
    schedule.decay_share = stored.at("decay_share").get<double>();
    return schedule;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::string advice_on_schedule(const states::Schedule& schedule, std::int64_t step) {
  return fmt::format(
      "\nThe learning rates of the {} steps so far would have been others. A run can be prolonged "
      "where its rate does not know its end yet: with --schedule constant, with wsd before it "
      "decays, and during the warm-up. Else let the run end as it was meant to, and train a new "
      "one on from its weights: --model the run's folder, another --out, --steps {} for as many "
      "more.",
      step, std::max<std::int64_t>(1, schedule.steps - step));
}

}  // namespace

void compare_settings(const files::TrainingState& state, const Json& key,
                      const states::Schedule& schedule, const Note& note) {
  const std::optional<states::Schedule> stored = schedule_in(state.numerics_key);
  const bool same_rates = stored && state.step <= states::steps_in_common(*stored, schedule);
  std::string wrong, changed;
  bool schedule_alone = true;
  for (const KeyDifference& difference : compare_keys(state.numerics_key, key)) {
    if (difference.field == "data.digest" || difference.field == "data.content") {
      continue;  // compared file by file
    }
    if (difference.field == kStateFormatField) {
      note(fmt::format("The checkpoint's states are {}: they are converted to {}, once",
                       difference.stored, difference.given));
      continue;
    }
    const bool of_schedule = difference.field.starts_with(kScheduleField);
    const std::string line = fmt::format("\n  {}: {} in the checkpoint, {} now", difference.field,
                                         difference.stored, difference.given);
    if (of_schedule && same_rates) {
      changed += line;
    } else if (difference.machine) {
      note(
          "Resuming, not bit-identical: another machine, or another version of Ebb, than the "
          "checkpoint's:" +
          line);
    } else {
      wrong += line;
      schedule_alone = schedule_alone && of_schedule;
    }
  }
  if (!wrong.empty()) {
    throw ConfigError("--resume: the checkpoint was made with other settings:" + wrong +
                      "\nGive the same settings, or start a new run in another --out." +
                      (schedule_alone ? advice_on_schedule(schedule, state.step) : ""));
  }
  if (!changed.empty()) {
    note(fmt::format("Another schedule from here on, which had the same rates up to step {}:{}",
                     state.step, changed));
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
