// A line of a run's log.jsonl, as a run writes it and as others read it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "ebb/units.h"

namespace ebb::report {

// Of a step, or of a validation after it. Numbers that are not finite are NaN once they were read.
struct LogLine {
  std::int64_t step = 0;
  std::optional<double> loss{};
  std::optional<double> norm{};
  std::optional<double> learning_rate{};
  std::optional<double> seconds{};
  std::optional<double> tokens_per_second{};
  std::optional<double> utilization{};
  std::optional<double> validation_loss{};
  std::int64_t validation_tokens = 0;
  std::vector<std::pair<std::string, Bytes>> memory{};  // the most in use so far, by tier
};

// The numbers by their keys, in the order of the file.
struct LogField {
  std::string_view key;
  std::optional<double> LogLine::*value;
};
inline constexpr std::array<LogField, 7> kLogFields = {
    {{"loss", &LogLine::loss},
     {"norm", &LogLine::norm},
     {"learning_rate", &LogLine::learning_rate},
     {"seconds", &LogLine::seconds},
     {"tokens_per_second", &LogLine::tokens_per_second},
     {"utilization", &LogLine::utilization},
     {"validation_loss", &LogLine::validation_loss}}};

Json to_json(const LogLine& line);

// Nothing where the text is no line of a log.
std::optional<LogLine> parse_log_line(std::string_view text);

// Lines of a file that is read piece by piece, in little memory whatever it holds: a line that no
// log has, because it is too long, counts as an empty one. One without an end is not given: a run
// that was killed may have left it, or is writing it now.
class LineSplitter {
 public:
  void feed(std::string_view piece, const std::function<void(std::string_view)>& take);

 private:
  std::string line_;
  bool too_long_ = false;
};

}  // namespace ebb::report
