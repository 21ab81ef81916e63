// What the control groups of a process leave to it: containers set their limits there.
#pragma once

#include <filesystem>
#include <limits>
#include <string_view>

#include "ebb/units.h"

namespace ebb {

struct CgroupLimits {
  double cpus = std::numeric_limits<double>::infinity();  // 1.5: 150 ms of time every 100 ms
  Bytes memory = std::numeric_limits<Bytes>::max();
  // What may be added to what the groups hold now, before one is at its limit or slowed down at its
  // high mark. Cached files that nobody uses count as free: they make room.
  Bytes memory_left = std::numeric_limits<Bytes>::max();
};

// The tightest of the process's groups and of all groups above them, of version 2 and of version 1.
// `self` is the text of /proc/self/cgroup, `mounts` where the groups are seen (/sys/fs/cgroup). A
// group that is not there has no limit: a container may see its own as the root.
CgroupLimits cgroup_limits(const std::filesystem::path& mounts, std::string_view self);

}  // namespace ebb
