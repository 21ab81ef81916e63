#include "base/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

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

constexpr Bytes kNone = std::numeric_limits<Bytes>::max();

// Version 2's word for no limit is "max", version 1's a number of almost 2^63.
Bytes memory_in(const fs::path& path) {
  const Numbers numbers(path);
  const bool limited = numbers.count > 0 && numbers.values[0] >= 0 && numbers.values[0] < 0x1p62;
  return limited ? static_cast<Bytes>(numbers.values[0]) : kNone;
}

// A number of a memory.stat, "name value" a line; 0 where the name is not there.
Bytes value_of(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string key;
  for (Bytes value = 0; file >> key >> value;) {
    if (key == name) return value;
  }
  return 0;
}

// One version's files of a group, and its name for cached files of the group and those below it.
struct MemoryFiles {
  const char* limit;
  const char* high;  // "" where a version has none
  const char* held;
  const char* cached;
};
constexpr MemoryFiles kVersion2{"memory.max", "memory.high", "memory.current", "inactive_file"};
constexpr MemoryFiles kVersion1{"memory.limit_in_bytes", "", "memory.usage_in_bytes",
                                "total_inactive_file"};

void limit_memory(CgroupLimits& limits, const fs::path& group, const MemoryFiles& files) {
  const Bytes limit = memory_in(group / files.limit);
  limits.memory = std::min(limits.memory, limit);
  const Bytes most = *files.high == 0 ? limit : std::min(limit, memory_in(group / files.high));
  if (most == kNone) return;
  const Bytes held = memory_in(group / files.held);
  const Bytes cached = value_of(group / "memory.stat", files.cached);
  const Bytes used = held == kNone ? 0 : std::max<Bytes>(0, held - cached);
  limits.memory_left = std::min(limits.memory_left, std::max<Bytes>(0, most - used));
}

void limit_by(CgroupLimits& limits, const fs::path& group) {
  if (const Numbers max(group / "cpu.max"); max.count == 2) {
    limit_cpus(limits, max.values[0], max.values[1]);
  }
  const Numbers quota(group / "cpu.cfs_quota_us");
  const Numbers period(group / "cpu.cfs_period_us");
  if (quota.count > 0 && period.count > 0) limit_cpus(limits, quota.values[0], period.values[0]);
  limit_memory(limits, group, kVersion2);
  limit_memory(limits, group, kVersion1);
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
