// What the CPU kernels' bits depend on besides shapes and values: part of the numerics key.
#pragma once

#include "base/json_fwd.h"

namespace ebb::kernels {

Json cpu_numerics();

}  // namespace ebb::kernels
