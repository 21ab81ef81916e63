// log.jsonl in the run's folder: one line a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "ebb/train.h"

namespace ebb::engine {

class StepLog {
 public:
  // Goes on behind `step`: lines of later steps, which a killed run left, are dropped.
  StepLog(const std::filesystem::path& path, std::int64_t step);
  void add(const StepReport& report, double seconds);

 private:
  std::ofstream file_;
};

}  // namespace ebb::engine
