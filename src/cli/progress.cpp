#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/interrupts.h"
#include "cli/output.h"

namespace ebb::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenViews{100};
constexpr int kLeastColumns = 60;
constexpr int kLeastRows = 16;

// Cells of the terminal; 0 where it cannot show the view: it is small, or does not know the blocks.
int columns_for_view() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  const auto word = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  if (word("TERM") == "dumb" || word("TERM") == "linux") return 0;
  // Where nobody said what the characters are, they are UTF-8.
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = word(name);
    if (locale.empty()) continue;
    const bool other = locale.find('.') != std::string_view::npos &&
                       locale.find("UTF-8") == std::string_view::npos &&
                       locale.find("utf8") == std::string_view::npos;
    if (other) return 0;
    break;
  }
  return size.ws_col < kLeastColumns || size.ws_row < kLeastRows ? 0 : size.ws_col - 1;
}

std::string line_of(const StepReport& r) {
  const std::string utilization =
      r.utilization ? fmt::format("  {:.1f}% utilization", 100 * *r.utilization) : "";
  return fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {:.0f} tokens/s{}{}  device {}", r.step,
      r.steps, r.loss, r.norm, r.learning_rate, r.tokens_per_second, utilization,
      time_left(r.seconds_left), format_bytes(r.device_bytes));
}

}  // namespace

Progress::Progress(Detail detail) : detail_(detail), terminal_(::isatty(STDOUT_FILENO) != 0) {}

Progress::~Progress() {
  try {
    show();
    if (lines_shown_ > 0) print("\n");
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

std::string Progress::erase() {
  const int lines = std::exchange(lines_shown_, 0);
  if (lines == 0) return {};
  return lines == 1 ? "\r\033[J" : fmt::format("\r\033[{}A\033[J", lines - 1);
}

void Progress::detail(const std::string& text) {
  if (detail_ == Detail::everything) note(text);
}

// The view has no end on a terminal: the next one, a note or the destructor finishes it.
std::string Progress::view_text() {
  const int columns = columns_for_view();
  const std::vector<std::string> lines =
      columns > 0 ? view_.lines(columns) : std::vector<std::string>{line_of(last_)};
  std::string text = erase();
  text += fmt::format("{}", fmt::join(lines, "\n"));
  lines_shown_ = static_cast<int>(lines.size());
  return text;
}

// What was shown comes again below it: with the next step, or at the end.
void Progress::note(const std::string& text) {
  pending_ = pending_ || lines_shown_ > 0;
  print(fmt::format("{}{}\n", erase(), text));
}

void Progress::step(const StepReport& report) {
  if (!terminal_) {
    print(line_of(report) + "\n");
    return;
  }
  view_.add(report);
  last_ = report;
  pending_ = true;
  if (std::chrono::steady_clock::now() - shown_ >= kBetweenViews) show();
}

void Progress::show() {
  if (!std::exchange(pending_, false)) return;
  shown_ = std::chrono::steady_clock::now();
  print(view_text());
}

}  // namespace ebb::cli
