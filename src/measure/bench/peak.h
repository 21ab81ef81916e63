// The most bytes of one tier: what was allowed, what the plan said and what was counted.
#pragma once

#include "ebb/units.h"

namespace ebb::measure {

struct Peak {
  Bytes limit = 0;
  Bytes predicted = 0;
  Bytes measured = 0;
};

}  // namespace ebb::measure
