// Transfers, and how they get from one tier to another.
#pragma once

#include "plan/program.h"

namespace ebb::plan {

// A transfer of the source's range to the destination's, which are as long. Where no lane joins
// their tiers, it has none until route() has found the way. Of several lanes it takes the one whose
// turn it is by `number` and the destination.
Task transfer_task(const Program&, Use source, Use destination, Traffic traffic = Traffic::bulk,
                   std::size_t number = 0);

// Makes every transfer one that a lane can do: where no lane joins two tiers, it goes through
// staging objects on the tiers between them; where a tier takes or gives only so much at a time, or
// in whole grains, it is cut. Staging objects are a stream: `depth` of them are alive at once.
// Rules know nothing of it. Call it when all tasks are in the program.
void route(Program&, int depth);

}  // namespace ebb::plan
