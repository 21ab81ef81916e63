// The speeds that a bench's plans are made with: predictions by guesses would say nothing.
#pragma once

#include <functional>
#include <string>

#include "ebb/bench.h"
#include "engine/runtime.h"
#include "io/file_system.h"

namespace ebb::measure {

// Gives the runtime the profile of `path`, or the kept one, or, where there is none of this
// machine, one that is measured now for this run alone. Returns a line that says which.
std::string use_plan_speeds(io::FileSystem& files, engine::Runtime& runtime,
                            const std::string& path,
                            const std::function<void(const BenchProgress&)>& progress);

}  // namespace ebb::measure
