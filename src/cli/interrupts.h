// Ctrl-C and its relatives (SIGINT, SIGTERM, SIGHUP), answered at once in every phase of a run.
#pragma once

namespace ebb::cli {

// Before the first step there is nothing to save: the process says so and ends with kInterrupted.
// SIGHUP stays ignored where it is (nohup).
void catch_interrupts();

// From now on the first one is answered with a line and noted; a second one ends the process.
void save_on_interrupts();

bool interrupted();

inline constexpr int kInterrupted = 130;  // the exit code

}  // namespace ebb::cli
