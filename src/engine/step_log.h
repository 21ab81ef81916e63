// log.jsonl in the run's folder: one line a step, and one for each validation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "ebb/train.h"

namespace ebb::engine {

class StepLog {
 public:
  // Goes on behind `step`: lines of later steps, which a killed run left, are dropped. A crash
  // leaves the file as it was or as it should be. Throws IoError, as add() does.
  StepLog(std::filesystem::path path, std::int64_t step);
  void add(const StepReport& report, double seconds);
  void add_validation(std::int64_t step, double loss, std::int64_t tokens);

 private:
  void write(const Json& line);
  void check() const;

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace ebb::engine
