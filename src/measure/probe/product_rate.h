// The rate of large matrix products: what a prompt could be read at if nothing else were to be
// done.
#pragma once

#include "base/dtype.h"
#include "engine/runtime.h"

namespace ebb::measure {

// Operations a second of the device's own products with operands of this type, weights as models
// have them (out x in). Several large shapes are tried and the best counts. Takes about so many
// seconds and, on a GPU, some more: until its clocks have settled.
double product_rate(engine::Runtime& runtime, DType type, double seconds);

}  // namespace ebb::measure
