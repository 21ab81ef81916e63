#include "ebb/probe.h"

#include <fmt/format.h>

#include "engine/runtime.h"

namespace ebb {

std::string probe(const std::string& device) {
  engine::Runtime runtime(device, 0);
  return fmt::format("device: {} ({})\n{}CPU threads: {}\nkernels: {}\nspeeds in plans: {}\n",
                     runtime.device().kind(), runtime.device().name(),
                     runtime.device().description(), runtime.threads(),
                     runtime.numerics().at("kernels").dump(), runtime.profile().name);
}

std::string probe_json(const std::string& device) {
  return plan::to_json(engine::Runtime(device, 0).profile()).dump(2) + "\n";
}

}  // namespace ebb
