#include "cli/interrupts.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

namespace ebb::cli {
namespace {

// The only globals of the command line: a handler has nothing else to reach.
volatile std::sig_atomic_t g_interrupted = 0;
volatile std::sig_atomic_t g_saves = 0;

// Writes by the system call, as nothing else may be called in a handler; the code that was
// interrupted finds its errno as it was.
void say(std::string_view text) {
  const int before = errno;
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
  errno = before;
}

void on_interrupt(int signal) {
  if (g_saves == 0) {
    say("\nebb: interrupted before the first step; nothing was trained\n");
    // Not exit(): destructors and buffers of other threads are in any state now.
    ::_exit(kInterrupted);
  }
  g_interrupted = 1;
  say("\nebb: interrupted; the step under way is finished and saved (once more: ends at once)\n");
  // The default of this signal ends the process: that is the second one's answer.
  std::signal(signal, SIG_DFL);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

void save_on_interrupts() { g_saves = 1; }

bool interrupted() { return g_interrupted != 0; }

}  // namespace ebb::cli
