// Seconds that a run spends before its first step, phase by phase.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace ebb::engine {

class StartTimes {
 public:
  // Ends a phase: all since the phase before, or since the object was made.
  void lap(std::string phase);

  std::string text() const;  // "plan 20 ms, allocate 1.2 s"
  Json json() const;         // seconds by phase

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  std::vector<std::pair<std::string, double>> phases_;
};

}  // namespace ebb::engine
