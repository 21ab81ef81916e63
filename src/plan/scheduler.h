// Where in the issue order objects are fetched that later tasks need: one scheduler for all rules.
#pragma once

#include "base/list.h"
#include "plan/program.h"

namespace ebb::plan {

// A transfer that brings in a temporary object, which later tasks use. Those of one stream keep
// their order. Where the stream is bounded, each is issued when the object that is so many before
// it in the stream is first used: as many are on their way as its depth says. What belongs to no
// stream comes as early as it fits.
struct Fetch {
  Task task;
  TaskId earliest = 0;  // not before this task
};

// The order of fetches that belong to no stream and are in before the first of them is used.
enum class Arrival : std::uint8_t {
  last_first,   // in the reverse order of their uses
  first_first,  // in the order in which they left: what has left can be on its way back
};

// Inserts the fetches. Those of no stream, which come in the order of their uses, start at the
// earliest point from their `earliest` on at which their object fits into its tier's budget from
// there until its last use, or right before they are needed if there is no such point. One rule for
// both halves of the tide: in the backward pass room comes from activations that are done with,
// behind the norm from states that went out.
void place_fetches(Program&, List<Fetch> fetches, const PerTier<Bytes>& budget, Arrival);

// What leaves for a tier that cannot be addressed, a slow one, keeps its bytes for as long as there
// is room, in the budget and below the peak that its tier has anyway: the object that comes next
// then waits for older ones to be written. Changes `held` alone, of programs whose lifetimes are
// known.
void hold_what_leaves(Program&, const PerTier<Bytes>& budget);

}  // namespace ebb::plan
