#include "engine/machine_profile.h"

#include "engine/model_source.h"
#include "plan/machines.h"

namespace ebb::engine {

plan::Profile find_machine(io::FileSystem& files, const std::string& machine) {
  if (!files.exists(machine)) return plan::machine(machine);
  return plan::parse_profile(read_json(files, machine), machine);
}

}  // namespace ebb::engine
