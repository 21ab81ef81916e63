// How much one rendering of a chat template may do before it is refused.
#pragma once

#include <cstddef>

namespace ebb::text {

struct RenderLimits {
  std::size_t work = 10'000'000;                   // evaluated nodes and touched elements
  std::size_t text_bytes = std::size_t{64} << 20;  // one string, or the output
};

}  // namespace ebb::text
