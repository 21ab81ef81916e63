#include "ebb/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/runtime.h"
#include "kernels/cpu/isa.h"

namespace ebb {

std::string probe(const std::string& device) {
  engine::Runtime runtime(device, 0);
  return fmt::format(
      "device: {} ({})\n{}CPU threads: {}\nCPU instruction set: {} (EBB_ISA chooses of {})\n"
      "kernels: {}\nspeeds in plans: {}\n",
      runtime.device().kind(), runtime.device().name(), runtime.device().description(),
      runtime.threads(), kernels::isa_in_use(), fmt::join(kernels::isa_levels(), ", "),
      runtime.numerics().at("kernels").dump(), runtime.profile().name);
}

std::string probe_json(const std::string& device) {
  const engine::Runtime runtime(device, 0);
  Json json = plan::to_json(runtime.profile());
  json["isa"] = kernels::isa_in_use();
  return json.dump(2) + "\n";
}

}  // namespace ebb
