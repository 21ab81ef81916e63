#include "cli/interrupts.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace ebb::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;
volatile std::sig_atomic_t g_saves = 0;

// By the system call, as nothing else may be called in a handler.
void say(std::string_view text) {
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void on_interrupt(int signal) {
  if (g_saves == 0) {
    say("\nebb: interrupted before the first step; nothing was trained\n");
    ::_exit(kInterrupted);
  }
  g_interrupted = 1;
  say("\nebb: interrupted; the step under way is finished and saved (once more: ends at once)\n");
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
