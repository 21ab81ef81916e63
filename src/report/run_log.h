// A run's log.jsonl as curves, read piece by piece. Whatever a file of that name holds is read as
// hostile: in little memory whatever its length, and what is no line of a log is counted and passed
// over.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/units.h"
#include "report/log_line.h"
#include "report/series.h"

namespace ebb::report {

// The fields of a step that are shown as curves.
inline constexpr std::array<LogField, 5> kCurves = {
    {{"loss", &LogLine::loss},
     {"norm", &LogLine::norm},
     {"learning_rate", &LogLine::learning_rate},
     {"tokens_per_second", &LogLine::tokens_per_second},
     {"utilization", &LogLine::utilization}}};

class RunLog {
 public:
  // The next bytes of the file; a line may be cut anywhere.
  void feed(std::string_view piece);

  const Series& curve(std::size_t which) const { return curves_.at(which); }  // of kCurves
  const Series& validation() const { return validation_; }
  std::int64_t last_step() const { return last_step_; }  // 0 where there is none
  std::int64_t steps() const { return steps_; }          // lines of steps
  double seconds() const { return seconds_; }            // of all of them
  // The most bytes in use by tier, as the last line has it.
  const std::vector<std::pair<std::string, Bytes>>& memory() const { return memory_; }
  std::int64_t bad_lines() const { return bad_lines_; }

 private:
  void take(std::string_view text);

  LineSplitter lines_;
  std::array<Series, kCurves.size()> curves_;
  Series validation_;
  std::int64_t last_step_ = 0;
  std::int64_t validated_step_ = -1;
  std::int64_t steps_ = 0;
  double seconds_ = 0;
  std::vector<std::pair<std::string, Bytes>> memory_;
  std::int64_t bad_lines_ = 0;
};

}  // namespace ebb::report
