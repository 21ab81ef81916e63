// Ctrl-C and its relatives (SIGINT, SIGTERM, SIGHUP), answered at once in every phase of a run.
#pragma once

namespace ebb::cli {

// Installs the handlers, once. Until save_on_interrupts() there is nothing to save: a signal is
// answered with a line and ends the process with kInterrupted, at once. SIGHUP stays ignored where
// it is (nohup).
void catch_interrupts();

// From now on the first one is answered with a line and noted; a second one ends the process.
void save_on_interrupts();

// Whether a signal was noted. Any thread may ask; it never becomes false again.
bool interrupted();

inline constexpr int kInterrupted = 130;  // the exit code

}  // namespace ebb::cli
