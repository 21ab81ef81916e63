// The batches of a training run: items in their shuffled order, read and tokenized ahead, laid into
// rows. A run that goes on at a position sees exactly what it would have seen without the stop,
// whatever the number of workers.
#pragma once

#include <cstdint>
#include <vector>

#include "text/data/packing.h"
#include "text/data/read_ahead.h"

namespace ebb::text {

struct BatchRules {
  BatchShape shape;
  Packing packing = Packing::stream;
  std::uint64_t seed = 0;
  double held_out_share = 0;
};

// Throws ConfigError where tokens run on and all of the data is shorter than a row.
void check_length(const DataSet& data, BatchShape shape, Packing packing);

// Enough for that many batches to be ready.
AheadBounds bounds_for(BatchShape shape, std::int64_t batches_ahead, int workers);

// One thread takes the batches.
class Prefetcher {
 public:
  // Keeps a reference to `data`.
  Prefetcher(const DataSet& data, const BatchRules& rules, DataPosition start, AheadBounds bounds);

  // Waits only for items that are not ready: laying them into rows is copying. Throws what reading
  // an item threw, in its turn and ever after.
  Batch next() { return *maker_.next(); }

  // The batches of a step. Where no token of them carries loss there is nothing to learn: they are
  // passed over, the next ones taken instead, and the first of those counts them. Throws
  // ConfigError where a whole epoch goes by like that.
  std::vector<Batch> next_step(std::int64_t batches);

  double waited_seconds() const { return ahead_.waited_seconds(); }

 private:
  BatchShape shape_;
  DataPosition position_;
  ReadAhead ahead_;
  BatchMaker maker_;
};

}  // namespace ebb::text
