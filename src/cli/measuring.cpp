#include "cli/measuring.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "cli/output.h"

namespace ebb::cli {

MeasuringProgress::MeasuringProgress() : terminal_(::isatty(STDERR_FILENO) != 0) {}

MeasuringProgress::~MeasuringProgress() {
  // Back to the line's start, and clear what is right of it.
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void MeasuringProgress::operator()(const BenchProgress& p) const {
  fmt::print(stderr, "{}{:.0f}%  {}{}{}", terminal_ ? "\r\033[K" : "", 100 * p.done, p.now,
             time_left(p.seconds_left), terminal_ && !p.result ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace ebb::cli
