// The loops of searching scales, on vectors: the reference's bits.
#pragma once

#include "kernels/reference/scale_search.h"

namespace ebb::kernels {

SearchLoops cpu_search_loops();

}  // namespace ebb::kernels
