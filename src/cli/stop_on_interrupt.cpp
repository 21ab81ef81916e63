#include "cli/stop_on_interrupt.h"

#include <atomic>
#include <chrono>
#include <csignal>

namespace ebb::cli {
namespace {

// All that a handler may touch. How many interrupts there were since begin().
std::atomic<int> g_interrupts{0};
std::atomic<bool> g_second_ends{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void count_interrupt(int signal) {
  if (g_interrupts.fetch_add(1) > 0 && g_second_ends) {
    // The default of this signal ends the process, as soon as the handler returns.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

// Without SA_RESTART: a read from a terminal returns, so that a line that was begun can be left.
void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

StopOnInterrupt::StopOnInterrupt(Second second) {
  g_interrupts = 0;
  g_second_ends = second == Second::ends_process;
  install(count_interrupt);
}

StopOnInterrupt::~StopOnInterrupt() { install(SIG_DFL); }

std::stop_token StopOnInterrupt::begin() {
  watcher_ = {};  // ends the one before
  g_interrupts = 0;
  source_ = {};
  // A stop cannot be requested in a handler: it takes locks. The time between two looks is one that
  // nobody notices, and costs nothing.
  watcher_ = std::jthread([source = source_](const std::stop_token& done) mutable {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    // Interrupts are for the thread that reads.
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    while (!done.stop_requested()) {
      if (g_interrupts > 0) {
        source.request_stop();
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  return source_.get_token();
}

bool StopOnInterrupt::interrupted() const { return g_interrupts > 0; }

}  // namespace ebb::cli
