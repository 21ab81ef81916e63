// The rows of `ebb bench train`: what is trained under which limit of device memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/bench.h"

namespace ebb::measure {

struct RowLimit {
  enum class Kind : std::uint8_t { resident, less, off, all, bytes } kind = Kind::resident;
  double share = 0;  // less: of the states' bytes
  Bytes bytes = 0;
};

// Throws ConfigError that says what there is.
RowLimit parse_limit(const std::string& text);

struct TrainingRow {
  int number = 0;  // from 1, as people choose it
  std::string model;
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 0;
  std::int64_t accumulate = 0;
  std::string limit;
  StateFormat format = StateFormat::exact;

  std::int64_t tokens() const { return sequence * micro_batch * accumulate; }
  // Rows that differ in placement alone.
  bool same_numbers(const TrainingRow& other) const;
};

// On a device of this kind: "cpu" or "cuda". Throws ConfigError where the options have none.
std::vector<TrainingRow> training_rows(const TrainBenchOptions& options, const std::string& device);

}  // namespace ebb::measure
