#include "cli/progress.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include <fmt/format.h>

namespace ebb::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Progress::Progress() : terminal_(::isatty(STDOUT_FILENO) != 0) {}

Progress::~Progress() {
  if (line_shown_) fmt::print("\n");
}

void Progress::catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool Progress::stop_requested() {
  if (g_interrupted != 0) note("Interrupted: the step is finished, saving");
  return g_interrupted != 0;
}

void Progress::clear_line() {
  if (line_shown_) fmt::print("\r\033[K");
  line_shown_ = false;
}

void Progress::note(const std::string& text) {
  clear_line();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Progress::step(const StepReport& r) {
  const std::string light =
      r.share_of_light ? fmt::format("  {:.1f}% of light", 100 * *r.share_of_light) : "";
  const std::string line = fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3f}  rate {:.2e}  {:.0f} tokens/s{}  {} left  device {}",
      r.step, r.steps, r.loss, r.norm, r.learning_rate, r.tokens_per_second, light,
      format_seconds(r.seconds_left), format_bytes(r.device_bytes));
  if (terminal_) {
    fmt::print("\r\033[K{}", line);
    line_shown_ = true;
  } else {
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

}  // namespace ebb::cli
