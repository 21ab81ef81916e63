// What a measurement computes with.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "device/device.h"
#include "ebb/units.h"

namespace ebb::measure {

// Fills device memory with values whose products over a model's width stay what they are in size:
// nothing overflows or becomes denormal, however often it is run. Speed and power depend on the
// bits, so no zeros. Waits for the stream.
void fill_with_random_values(device::Stream& stream, std::byte* to, Bytes bytes, DType type);

}  // namespace ebb::measure
