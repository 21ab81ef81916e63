// How much one rendering of a chat template may do before it is refused.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ebb::text {

struct RenderLimits {
  std::size_t work = 10'000'000;                   // evaluated nodes and touched elements
  std::size_t text_bytes = std::size_t{64} << 20;  // one string, or the output
  // All that it holds at once, its conversation and its text included: half for values, half for
  // texts and lists while they are made, each of an eighth at most.
  std::size_t memory = std::size_t{512} << 20;

  std::size_t value_bytes() const { return memory / 2; }
  std::size_t piece_bytes() const { return std::min(text_bytes, memory / 8); }
};

}  // namespace ebb::text
