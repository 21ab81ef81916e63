#include "cli/progress.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/output.h"

namespace ebb::cli {

Progress::Progress(Detail detail) : detail_(detail), terminal_(::isatty(STDOUT_FILENO) != 0) {}

Progress::~Progress() {
  try {
    if (line_shown_) print("\n");
  } catch (...) {
    // The run's own end is what counts.
  }
}

void Progress::started() { save_on_interrupts(); }

bool Progress::stop_requested() {
  if (interrupted() && !std::exchange(told_, true))
    note("Interrupted: the step is finished, saving");
  return interrupted();
}

void Progress::print(const std::string& text) {
  if (broken_ || detail_ == Detail::nothing) return;
  // Stays where print_out() throws.
  broken_ = true;
  print_out(text);
  broken_ = false;
}

void Progress::note(const std::string& text) {
  const bool line = std::exchange(line_shown_, false);
  print(fmt::format("{}{}\n", line ? "\r\033[K" : "", text));
}

void Progress::detail(const std::string& text) {
  if (detail_ == Detail::everything) note(text);
}

// The line has no end on a terminal: the next one, a note or the destructor finishes it.
void Progress::step(const StepReport& r) {
  const std::string utilization =
      r.utilization ? fmt::format("  {:.1f}% utilization", 100 * *r.utilization) : "";
  const std::string line =
      fmt::format("step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {:.0f} tokens/s{}{}  device {}",
                  r.step, r.steps, r.loss, r.norm, r.learning_rate, r.tokens_per_second,
                  utilization, time_left(r.seconds_left), format_bytes(r.device_bytes));
  line_shown_ = terminal_;
  print(terminal_ ? "\r\033[K" + line : line + "\n");
}

}  // namespace ebb::cli
