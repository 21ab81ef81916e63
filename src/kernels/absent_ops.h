// Counting for machines that are not here: their ops cannot be asked what scratch they want, so it
// is estimated.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/counting_ops.h"

namespace ebb::kernels {

// Of a "cuda" or a "cpu" device; `cores` matter to the latter, which wants scratch for each.
std::unique_ptr<CountingOps> create_absent_ops(std::string_view device, int cores);

}  // namespace ebb::kernels
