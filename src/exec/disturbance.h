// Seams for tests of ordering.
#pragma once

#include <cstdint>

#include "base/list.h"
#include "ebb/units.h"
#include "plan/program.h"

namespace ebb::exec {

struct Disturbance {
  std::uint64_t slow_lanes_seed = 0;  // not 0: lanes pause at random before tasks
  bool poison = false;                // memory is filled with NaNs when objects come and go
  // The last bytes of each object, which no task may write: one that does is named. The program's
  // objects were made so much larger than what they hold. On the cpu device alone.
  Bytes red_zone = 0;
  // A thread for each lane issues its tasks, also where the device's streams never hold up the
  // thread that submits to them.
  bool threads = false;
};

// By task: the objects that no task uses any more once it has ended. Only where the last task in
// the issue order is known to come after all others that use the object.
List<List<plan::ObjectId>> dead_after(const plan::Program&);

}  // namespace ebb::exec
