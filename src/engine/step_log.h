// log.jsonl in the run's folder: one line a step, and one for each validation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "ebb/train.h"
#include "files/run/run_folder.h"
#include "io/file_system.h"

namespace ebb::engine {

// The beginning of a log that a run which goes on from `step` keeps: up to the first line that is
// not the JSON of a step from 0 to `step`, such as one that a killed run left unfinished. In time
// and memory that grow with the log.
std::string_view kept_lines(std::string_view log, std::int64_t step);

class StepLog {
 public:
  // Goes on behind `step`: lines of later steps, which a killed run left, are dropped. A crash
  // leaves the file as it was or as it should be. Throws IoError.
  StepLog(io::FileSystem& files, std::filesystem::path path, std::int64_t step, Note note);

  // Where a line cannot be written (a full disk) that is told once, and it is tried again with the
  // next one: a log is no reason to end a run.
  void add(const StepReport& report, double seconds);
  void add_validation(std::int64_t step, double loss, std::int64_t tokens);

 private:
  void write(const Json& line);

  Note note_;
  std::unique_ptr<io::File> file_;
  Bytes size_ = 0;
  std::string unwritten_;
  bool told_ = false;
};

}  // namespace ebb::engine
