// The programs of generation: the forward of a few new tokens with everything on the device.
#pragma once

#include "plan/program.h"

namespace ebb::plan {

// The argument of a run: how many bytes of token ids it takes.
inline constexpr int kTokenBytes = 0;

// One run takes a sequence further by up to as many tokens as the workload has. With a `first`
// program its persistent objects come first here, too: both can share arenas.
Program build_generation(const Workload&, const Program* first = nullptr);

}  // namespace ebb::plan
