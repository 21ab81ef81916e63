// What a plan decides. Every field can be written as a flag, and those flags reproduce the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/words.h"
#include "plan/workload.h"

namespace ebb::plan {

struct Choices {
  // Shares of the parameters, by count, in the order of the blocks: the first are resident, then
  // come the streamed ones, the last are updated by the CPU. The next forward pass needs the first
  // blocks first, and the backward pass makes the last blocks' gradients first.
  double offload_fraction = 0;  // whose state leaves the device
  double host_fraction = 0;     // of all parameters, part of the above, updated by the CPU
  std::int64_t chunk_parameters = 0;
  std::int64_t recompute_blocks = 0;  // so many of the first transformer blocks run forward twice
  std::int64_t host_inputs = 0;       // so many of the first blocks' inputs wait in host memory
  // So many of the last transformer blocks also keep what is cheap to make again.
  std::int64_t kept_blocks = 0;

  friend bool operator==(const Choices&, const Choices&) = default;
};

// A contiguous run of a block's parameters with all its planes: the unit of placing, moving and
// updating. Its ends are ends of tensors or multiples of the norm block within one, so that no sum
// of squares spans two chunks.
struct Chunk {
  int block = 0;
  int cell = 0;  // its number within the block
  std::int64_t first = 0;
  std::int64_t count = 0;
  Site site = Site::resident;
};

// More chunks of equal size than this are not made of one's own accord. A GPU's queues hold about a
// thousand entries each, of which a chunk takes five: where all of a model's states ride, a lane
// with more of them is full, and whoever issues the step waits for it before he comes to what the
// other lanes could do. And the time to plan grows with them.
inline constexpr std::int64_t kMostChunks = 128;

// A chunk size that keeps transfers long and the number of chunks moderate.
std::int64_t default_chunk_parameters(const Workload&);

std::vector<Chunk> cut_chunks(const Workload&, const Choices&);

}  // namespace ebb::plan
