#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

namespace ebb {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

CgroupLimits own_limits() { return cgroup_limits("/sys/fs/cgroup", text_of("/proc/self/cgroup")); }

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

Bytes available_memory() {
  return std::min(usable_memory(), available_memory(text_of("/proc/meminfo"), own_limits()));
}

Bytes available_memory(std::string_view meminfo, const CgroupLimits& groups) {
  // "MemAvailable:   24061612 kB"
  constexpr std::string_view name = "MemAvailable:";
  Bytes available = groups.memory_left;
  if (const auto at = meminfo.find(name); at != std::string_view::npos) {
    std::istringstream rest{std::string(meminfo.substr(at + name.size(), 64))};
    Bytes kilobytes = 0;
    if (rest >> kilobytes && kilobytes >= 0) available = std::min(available, kilobytes * kKiB);
  }
  return available;
}

Bytes less_margin(Bytes available) {
  constexpr Bytes least = 128 * kMiB;
  const Bytes left = available - std::max(least, available / 16);
  return std::max<Bytes>(0, left) / kMiB * kMiB;
}

}  // namespace ebb
