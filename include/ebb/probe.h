// What this machine is and how fast: measured once, kept, and used by plans.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ebb/bench.h"

namespace ebb {

struct ProbeOptions {
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;      // 0: as many as the machine lets us use
  double seconds = 20;  // to spend on timing, about; fewer are less exact
  // Folders of drives to measure, and how much to write; without bytes 8 GiB, more than most
  // drives' caches hold. None: what plans know of a disk stays a rule of thumb.
  std::vector<DiskFolder> disk{};
  std::string out;  // the file; empty: where train and plan look for it
};

struct ProbeResult {
  std::string text;  // for people
  std::string json;  // the profile as it was kept, which `ebb inspect` reads
  std::string file;  // where it was kept
};

// Measures, and writes the profile whole or not at all. `progress` is called on the calling thread.
// Throws ConfigError for what is not to be had, IoError where the file cannot be written.
ProbeResult probe(const ProbeOptions& options,
                  const std::function<void(const BenchProgress&)>& progress);

}  // namespace ebb
