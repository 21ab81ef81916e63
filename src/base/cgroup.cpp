#include "base/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace ebb {
namespace {

namespace fs = std::filesystem;

// The first numbers of a file; "max" and what is no number leave `count` short.
struct Numbers {
  double values[2] = {0, 0};
  int count = 0;

  explicit Numbers(const fs::path& path) {
    std::ifstream file(path);
    while (count < 2 && file >> values[count]) ++count;
  }
};

void limit_cpus(CgroupLimits& limits, double quota, double period) {
  // -1 is version 1's word for none.
  if (quota > 0 && period > 0) limits.cpus = std::min(limits.cpus, quota / period);
}

void limit_memory(CgroupLimits& limits, const fs::path& path) {
  const Numbers numbers(path);
  // Version 1's word for none is almost 2^63.
  if (numbers.count > 0 && numbers.values[0] > 0 && numbers.values[0] < 0x1p62) {
    limits.memory = std::min(limits.memory, static_cast<Bytes>(numbers.values[0]));
  }
}

void limit_by(CgroupLimits& limits, const fs::path& group) {
  if (const Numbers max(group / "cpu.max"); max.count == 2) {
    limit_cpus(limits, max.values[0], max.values[1]);
  }
  const Numbers quota(group / "cpu.cfs_quota_us");
  const Numbers period(group / "cpu.cfs_period_us");
  if (quota.count > 0 && period.count > 0) limit_cpus(limits, quota.values[0], period.values[0]);
  limit_memory(limits, group / "memory.max");
  limit_memory(limits, group / "memory.limit_in_bytes");
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& mounts, std::string_view self) {
  CgroupLimits limits;
  std::istringstream lines{std::string(self)};
  // "0::/group" for version 2; "4:cpu,cpuacct:/group", one line a mount, for version 1.
  for (std::string id, controllers, group; std::getline(lines, id, ':') &&
                                           std::getline(lines, controllers, ':') &&
                                           std::getline(lines, group);) {
    const fs::path below = fs::path(group).relative_path().lexically_normal();
    for (const fs::path& mount : {mounts / controllers, mounts / "unified"}) {
      fs::path at = mount;
      limit_by(limits, at);
      for (const fs::path& part : below) limit_by(limits, at /= part);
    }
  }
  return limits;
}

}  // namespace ebb
