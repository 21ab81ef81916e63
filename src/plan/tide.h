// The tide: where in the issue order the states of streamed chunks ride in.
#pragma once

#include <vector>

#include "plan/program.h"

namespace ebb::plan {

// A task that brings a chunk's state in, and the task before which it must have been issued.
struct Fetch {
  Task task;
  TaskId before = 0;
};

// In which order those come that are in before the first update.
enum class Arrival : std::uint8_t {
  last_first,   // in the reverse order of their updates
  first_first,  // in the order in which they left: who has left can be on its way back
};

// Inserts the fetches, which come in the order of their updates, each at the earliest point from
// `earliest` on at which its state fits into `device_budget` from there until its last use, or
// right before it is needed if there is no such point. One rule for both halves of the tide: in the
// backward pass room comes from activations that are done with, behind the norm from states that
// went out.
void ride_in(Program&, std::vector<Fetch> fetches, Bytes device_budget, TaskId earliest, Arrival);

}  // namespace ebb::plan
