#include "api/planned_machine.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/machine_profile.h"
#include "engine/settings.h"
#include "plan/explain.h"

namespace ebb::api {
namespace {

PlannedMachine this_machine(io::FileSystem& files, const MachineOptions& options) {
  PlannedMachine machine;
  machine.here =
      std::make_unique<engine::Runtime>(options.device, engine::check_threads(options.threads));
  machine.speeds_note = engine::load_profile(files, *machine.here, options.profile);
  machine.profile = machine.here->profile();
  machine.memory = machine.here->memory();
  return machine;
}

}  // namespace

std::string PlannedMachine::explain() const {
  const std::string speeds = plan::explain_speeds(profile);
  if (here != nullptr) return speeds_note + "\n" + speeds;
  return fmt::format(
      "Speeds of {}:\n{}Workspaces are estimates: the libraries of that machine were not asked.\n",
      profile.name, speeds);
}

PlannedMachine planned_machine(io::FileSystem& files, const MachineOptions& options,
                               const std::string& name) {
  if (name.empty()) return this_machine(files, options);
  if (!options.profile.empty()) {
    throw ConfigError("--profile: speeds of this machine say nothing of --machine; give one only");
  }
  PlannedMachine machine;
  machine.profile = engine::find_machine(files, name);
  const plan::Profile& profile = machine.profile;
  if (options.device != DeviceKind::automatic && to_word(options.device) != profile.device) {
    throw ConfigError(fmt::format("--device {}: the machine is a {} one; leave --device out",
                                  to_word(options.device), profile.device));
  }
  machine.estimated = kernels::estimate_needs(profile.device, profile.cores);
  machine.estimated_cpu = kernels::estimate_needs("cpu", profile.cores);
  machine.memory = {.device = profile.device_memory,
                    .host = profile.host_memory,
                    .shared = profile.device == "cpu"};
  return machine;
}

}  // namespace ebb::api
