// Cuts a token stream into shuffled batches, each a pure function of its position: a run that is
// resumed at a position sees exactly what it would have seen without the stop.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/units.h"
#include "text/data/token_source.h"

namespace ebb::text {

struct BatchShape {
  std::int64_t sequence = 0;  // tokens a row
  std::int64_t rows = 0;
};

struct Batch {
  // rows x sequence each, row by row; a target is the token that follows.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::int64_t position_after = 0;  // where the next batch begins
};

// Sample i is the tokens [i * sequence, i * sequence + sequence + 1) of the stream: documents run
// on, parted by end of text, and an incomplete sample at the end is dropped. Each epoch visits
// every sample once, in an order drawn from the seed and the epoch. Any thread may call it.
class Batches {
 public:
  // Keeps a reference to `source`. Throws ConfigError if the stream has not one sample.
  Batches(const TokenSource& source, BatchShape shape, std::uint64_t seed);

  // The batch of the samples [position, position + rows), counted from the start of the run across
  // epochs; its rows may belong to two epochs or more. Allocates nothing but the batch.
  Batch make(std::int64_t position) const;

  BatchShape shape() const { return shape_; }
  std::int64_t samples_per_epoch() const { return samples_; }
  // What a batch's tokens and targets occupy.
  Bytes batch_bytes() const;

 private:
  const TokenSource& source_;
  BatchShape shape_;
  std::uint64_t seed_;
  std::int64_t samples_ = 0;
};

}  // namespace ebb::text
