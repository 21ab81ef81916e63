// Batches: what a training step is fed with.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/units.h"
#include "text/data/position.h"

namespace ebb::text {

struct BatchShape {
  std::int64_t sequence = 0;  // tokens a row
  std::int64_t rows = 0;
  std::int64_t tokens() const { return sequence * rows; }
};

struct Batch {
  // rows x sequence each, row by row. A target is the token that follows, or -1 where nothing is to
  // be learned.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::int64_t counted = 0;  // targets that are not -1
  // Examples that were longer than a row, and the tokens they lost.
  std::int64_t cut_examples = 0;
  std::int64_t cut_tokens = 0;
  DataPosition position_after = {};  // where the next batch begins
};

}  // namespace ebb::text
