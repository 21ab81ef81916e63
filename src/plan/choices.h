// What a plan decides. What people can choose is written as flags, which reproduce the plan.
#pragma once

#include <cstdint>

#include "base/list.h"
#include "plan/types.h"
#include "plan/workload.h"

namespace ebb::plan {

struct Choices {
  // Shares of the parameters, by count, in the order of the blocks: the first are resident, then
  // come the streamed ones, the last are updated by the CPU. The next forward pass needs the first
  // blocks first, and the backward pass makes the last blocks' gradients first.
  double offload_fraction = 0;   // whose state leaves the device
  double host_fraction = 0;      // of all parameters, part of the above, updated by the CPU
  Tier state_home = Tier::host;  // where states go that leave the device
  // The tier below host memory, a disk's; host where there is none. What goes there, of what leaves
  // the device: states of so many parameters, the foremost blocks' first, and of so many blocks
  // weights (of streamed ones), gradient sums (of those in host memory) and inputs (likewise).
  Tier below = Tier::host;
  double disk_fraction = 0;
  std::int64_t disk_weights = 0;
  std::int64_t disk_sums = 0;
  std::int64_t disk_inputs = 0;
  std::int64_t chunk_parameters = 0;
  std::int64_t recompute_blocks = 0;  // so many of the first transformer blocks run forward twice
  std::int64_t host_inputs = 0;       // so many of the first blocks' inputs wait in host memory
  // So many of the last transformer blocks also keep what is cheap to make again.
  std::int64_t cheap_saved_blocks = 0;
  // So many blocks' weights live in host memory and come up for every pass: transformer blocks
  // first, evenly spread, so that others compute while they come; then the rest in order.
  std::int64_t streamed_weights = 0;
  // So many of the last blocks' gradients leave the device as they are made, and are summed in host
  // memory. Those that the CPU updates always do.
  std::int64_t host_sums = 0;
  // 1: the embedding and the head, where they have pieces, run piece by piece, and no more of them
  // need be on the device; 0: whole.
  std::int64_t vocabulary_cut = 0;
  // How many objects of a stream may be alive at once: gradients on their way to the host, weights
  // and inputs on their way up, staging.
  std::int64_t depth = kLeastDepth;

  static constexpr std::int64_t kLeastDepth = 2;
  static constexpr std::int64_t kMostDepth = 64;
  friend bool operator==(const Choices&, const Choices&) = default;
};

// A contiguous run of a block's parameters with all its planes: the unit of placing, moving and
// updating. Its ends are ends of tensors or multiples of the norm block within one, so that no sum
// of squares spans two chunks.
struct Chunk {
  int block = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  Tier home = Tier::device;     // where its state lives
  Place place = Place::device;  // the processor that updates it
  Tier sums = Tier::device;     // where its gradient is gathered
  int owner = 0;                // the rank that has its state and updates it

  Site site() const {
    return place == Place::cpu ? Site::host : home == Tier::device ? Site::resident : Site::stream;
  }
};

// More chunks of equal size than this are not made of one's own accord: the time to plan grows with
// them, and smaller transfers gain nothing.
inline constexpr std::int64_t kMostChunks = 128;

// A chunk size that keeps transfers long and the number of chunks moderate.
std::int64_t default_chunk_parameters(const Workload&);

List<Chunk> cut_chunks(const Workload&, const Choices&);

// Whether the i-th of `all` is among so many that are spread evenly.
bool is_one_of(std::int64_t i, std::int64_t many, std::int64_t all);

// Whether a block runs piece by piece.
bool is_cut(const Block&, const Choices&);

// By block: where its weights live. Those that are not on the device come up for every pass.
List<Tier> weight_homes(const Workload&, const Choices&);

// A chunk's state as one piece of memory.
Bytes state_bytes(const Workload&, const Chunk&);

}  // namespace ebb::plan
