// The one sequence of a generator, and what of it the next one may keep.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "ebb/generator.h"
#include "engine/generator.h"

namespace ebb::api {

// Refers to the generator, which nothing else may take further. For one thread.
class CachedSequence {
 public:
  explicit CachedSequence(engine::Generator& generator)
      : generator_(generator), slice_(generator.plan().slice.workload.tokens) {}

  // Begins a sequence with the prompt, which is not empty, but does not compute it: goes back to
  // what may be kept of the sequence before, and returns its length, which is less than the
  // prompt's.
  std::int64_t begin(std::span<const std::int32_t> prompt, PrefixReuse reuse);

  // Takes the sequence further; returns the logits behind it, as the generator does. Between slices
  // it looks at `stop`: then the logits are none.
  std::span<const float> advance(std::span<const std::int32_t> tokens,
                                 const std::stop_token& stop = {});

  // All of it: what was computed and, after a failure, the slice that was under way.
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  engine::Generator& generator_;
  std::int64_t slice_;  // tokens of a whole slice
  std::vector<std::int32_t> tokens_;
  // Its beginning that was computed in whole slices, as every sequence computes it.
  std::int64_t sliced_ = 0;
};

}  // namespace ebb::api
