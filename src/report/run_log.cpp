#include "report/run_log.h"

#include <algorithm>
#include <cmath>

namespace ebb::report {

void RunLog::feed(std::string_view piece) {
  lines_.feed(piece, [this](std::string_view line) { take(line); });
}

void RunLog::take(std::string_view text) {
  auto line = parse_log_line(text);
  // Steps go up: a line that goes back is not what a run wrote.
  const bool good =
      line && (line->validation_loss ? line->step > validated_step_ : line->step > last_step_);
  if (!good) {
    ++bad_lines_;
    return;
  }
  if (line->validation_loss) {
    validated_step_ = line->step;
    validation_.add(line->step, seconds_, *line->validation_loss);
    return;
  }
  last_step_ = line->step;
  ++steps_;
  const double seconds = line->seconds.value_or(0);
  // The sum stays finite whatever the lines say.
  if (seconds > 0) seconds_ = std::min(seconds_ + seconds, 1e15);
  for (std::size_t i = 0; i < kCurves.size(); ++i) {
    if (const auto& value = (*line).*kCurves[i].value) {
      curves_[i].add(line->step, seconds_, *value);
    }
  }
  if (!line->memory.empty()) memory_ = std::move(line->memory);
}

}  // namespace ebb::report
