// The machine that a plan is made for: this one, or one that need not be here.
#pragma once

#include <memory>
#include <string>

#include "ebb/types.h"
#include "engine/runtime.h"
#include "io/file_system.h"
#include "kernels/estimated_needs.h"
#include "plan/profile.h"

namespace ebb::api {

struct PlannedMachine {
  std::unique_ptr<engine::Runtime> here;               // nothing for a machine elsewhere
  std::unique_ptr<kernels::WorkspaceNeeds> estimated;  // of its libraries, which cannot be asked
  std::unique_ptr<kernels::WorkspaceNeeds> estimated_cpu;  // likewise, of its CPU's
  plan::Profile profile;
  engine::MachineMemory memory;
  std::string speeds_note;  // where the speeds of this machine are from

  const kernels::WorkspaceNeeds& needs() const {
    return here != nullptr ? here->device_model() : *estimated;
  }
  // Of the CPU where it computes blocks beside the device.
  const kernels::WorkspaceNeeds& cpu_needs() const {
    return here != nullptr ? here->cpu_model() : *estimated_cpu;
  }
  // The speeds that plans are made with, and where they are from.
  std::string explain() const;
};

struct MachineOptions {
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;
  std::string profile;  // a file of speeds of this machine
};

// `name` is a machine that Ebb knows or a profile's path; empty for this one. Throws ConfigError
// for options that contradict it.
PlannedMachine planned_machine(io::FileSystem& files, const MachineOptions& options,
                               const std::string& name);

}  // namespace ebb::api
