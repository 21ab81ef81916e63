// A run's folder as a report and a watcher see it: its log, what it planned, what one of its steps
// was like, and what its last checkpoint says of itself. Everything in the folder is read as
// hostile, and nothing but log.jsonl or plan.json must be there.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/json.h"
#include "io/file_system.h"
#include "report/run_log.h"

namespace ebb::report {

// What a run keeps for pictures, beside its log.
inline constexpr const char* kLogName = "log.jsonl";
inline constexpr const char* kPlanName = "plan.json";
inline constexpr const char* kStepName = "step.json";

using Rows = std::vector<std::pair<std::string, std::string>>;  // names and values, for people

struct TierFigures {
  std::string name;
  Bytes limit = 0;
  Bytes predicted_peak = 0;
  Bytes measured_peak = 0;  // 0: not known
};

struct LaneFigures {
  std::string name;
  double predicted_seconds = 0;  // busy, of a step
  double exposed_seconds = 0;    // predicted: compute stood still for want of it
  double measured_seconds = -1;  // busy, of one step; negative: not known
};

struct RunData {
  std::string name;  // as it was asked for
  RunLog log;
  std::int64_t planned_steps = 0;  // of the whole run; 0: not known
  std::int64_t tokens_per_step = 0;
  double predicted_step_seconds = 0;
  double predicted_tokens_per_second = 0;
  std::string words;  // the plan
  std::vector<TierFigures> tiers;
  std::vector<LaneFigures> lanes;
  Json predicted;  // steps as checked_step() leaves them, or null
  Json measured;
  Rows about;                      // model, machine, versions
  Rows settings;                   // what the numbers depend on, and the plan's flags
  Rows digests;                    // of data and of the last checkpoint's files
  std::vector<std::string> notes;  // what of the folder could not be read
};

// Throws ConfigError where the folder is not a run's, IoError where it cannot be read.
RunData read_run(io::FileSystem& files, const std::filesystem::path& folder);

// The same of a plan alone, which is text as plan_json() makes it. Throws FormatError.
RunData data_of_plan(const std::string& name, std::string_view plan_json);

// What plan.json of a run's folder says, and nothing else. Throws FormatError, IoError.
RunData read_plan(io::FileSystem& files, const std::filesystem::path& folder);

// Hands on what the file has behind `offset`, piece by piece, and returns where it ends now. Where
// it ends before `offset` that is another file, and nothing is handed on.
Bytes read_pieces(io::FileSystem& files, const std::filesystem::path& path, Bytes offset,
                  FunctionRef<void(std::string_view)> take);

}  // namespace ebb::report
