// How parameters are cut into chunks and chunks shared out among sites, in numbers: what plans and
// the optimizer library, which know nothing of each other, do alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ebb {

// The names people know for where a chunk's state lives and where it is updated.
enum class Site : std::uint8_t {
  resident,  // lives on the device and is updated there
  stream,    // lives elsewhere and is updated on the device
  host,      // is updated by the CPU
};
std::string_view name_of(Site);

// Calls visit(chunk, site, share) from the last chunk to the first. `share` is that of the
// parameters behind the chunk, by count. The last are the host's, before them come those that are
// streamed, and the first stay; a chunk that is partly within a fraction is all of it.
template <class Chunks, class Count, class Visit>
void share_out(Chunks& chunks, double offload_fraction, double host_fraction, Count count_of,
               Visit visit) {
  std::int64_t total = 0;
  for (const auto& chunk : chunks) total += count_of(chunk);
  std::int64_t behind = 0;
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    const double share = static_cast<double>(behind) / static_cast<double>(total);
    visit(*chunk,
          share < host_fraction      ? Site::host
          : share < offload_fraction ? Site::stream
                                     : Site::resident,
          share);
    behind += count_of(*chunk);
  }
}

// A tensor's place among the parameters of a run that chunks are cut from.
struct TensorRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// A run of `length` parameters may be cut after whole grains of a tensor, or where the next tensor
// starts; padding behind a tensor belongs to it. The furthest such cut that is at most `size`
// behind `first`, or the nearest if none is. `tensors` are in order.
std::int64_t next_cut(std::span<const TensorRange> tensors, std::int64_t length, std::int64_t grain,
                      std::int64_t first, std::int64_t size);

// A chunk size that keeps transfers long, and shares of a small model fine.
std::int64_t default_chunk_parameters(std::int64_t parameters);

// Where nothing else fits, plans try chunks down to the default by this.
inline constexpr std::int64_t kLeastChunkDivisor = 64;

}  // namespace ebb
