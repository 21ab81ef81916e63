// log.jsonl in the run's folder: one line a step, and one for each validation. Beside it, where
// they are asked for, the same as log.csv and as TensorBoard's events in tensorboard/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/note.h"
#include "ebb/train.h"
#include "io/file_system.h"
#include "report/log_file.h"
#include "report/log_line.h"

namespace ebb::engine {

// The beginning of a log that a run which goes on from `step` keeps: up to the first line that is
// not the JSON of a step from 0 to `step`, such as one that a killed run left unfinished. In time
// and memory that grow with the log.
std::string_view kept_lines(std::string_view log, std::int64_t step);

class StepLog {
 public:
  // In the folder of a run. Goes on behind `step`: lines of later steps, which a killed run left,
  // are dropped, and an event file of its own says so. A crash leaves the files as they were or as
  // they should be. Throws IoError.
  StepLog(io::FileSystem& files, const std::filesystem::path& folder, std::int64_t step,
          std::span<const LogFormat> formats, const Note& note);

  // Where a line cannot be written (a full disk) that is told once, and it is tried again with the
  // next one: a log is no reason to end a run.
  void add(const StepReport& report, double seconds);
  void add_validation(std::int64_t step, double loss, std::int64_t tokens);

 private:
  void write(const report::LogLine& line);

  std::unique_ptr<report::LogFile> lines_;
  std::unique_ptr<report::LogFile> csv_;     // null: nobody asked for it
  std::unique_ptr<report::LogFile> events_;  // likewise
};

}  // namespace ebb::engine
