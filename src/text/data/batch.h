// Batches: what a training step is fed with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/units.h"
#include "text/data/position.h"

namespace ebb::text {

struct BatchShape {
  std::int64_t sequence = 0;  // tokens a row
  std::int64_t rows = 0;
  std::int64_t tokens() const { return sequence * rows; }
};

// What was left out on the way to a batch.
struct LeftOut {
  // Examples that were longer than a row, and the tokens they lost.
  std::int64_t cut_examples = 0;
  std::int64_t cut_tokens = 0;
  // Items that could not be used, and what was wrong with the first of them.
  std::int64_t bad_items = 0;
  std::string first_problem = {};
  // Steps' worth of batches of which no token carried loss.
  std::int64_t empty_steps = 0;

  void add(const LeftOut& more) {
    if (bad_items == 0) first_problem = more.first_problem;
    cut_examples += more.cut_examples;
    cut_tokens += more.cut_tokens;
    bad_items += more.bad_items;
    empty_steps += more.empty_steps;
  }
};

struct Batch {
  // rows x sequence each, row by row. A target is the token that follows, or -1 where nothing is to
  // be learned.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::int64_t loss_tokens = 0;  // targets that are not -1
  LeftOut left_out = {};
  DataPosition position_after = {};  // where the next batch begins
};

}  // namespace ebb::text
