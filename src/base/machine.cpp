#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/cgroup.h"

namespace ebb {
namespace {

CgroupLimits own_limits() {
  std::ifstream file("/proc/self/cgroup");
  const std::string self{std::istreambuf_iterator<char>(file), {}};
  return cgroup_limits("/sys/fs/cgroup", self);
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int by_mask = sched_getaffinity(0, sizeof set, &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());
  const double by_quota = std::ceil(own_limits().cpus);
  return std::max(1, by_quota < by_mask ? static_cast<int>(by_quota) : by_mask);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

Bytes largest_cache() {
  constexpr Bytes kGuess = 32 * kMiB;
  Bytes largest = 0;
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
    largest = std::max<Bytes>(largest, ::sysconf(level));
  }
  return largest > 0 ? largest : kGuess;
}

Bytes usable_memory() {
  const Bytes all = static_cast<Bytes>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
  return std::min(all, own_limits().memory);
}

}  // namespace ebb
