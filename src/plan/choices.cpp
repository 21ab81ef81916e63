#include "plan/choices.h"

#include <algorithm>

namespace ebb::plan {
namespace {

// Where a block may be cut: after whole norm blocks of a tensor, or where the next tensor starts.
// Padding behind a tensor belongs to it.
std::vector<std::int64_t> legal_cuts(const Block& block, std::int64_t grain) {
  std::vector<std::int64_t> cuts;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorRange& tensor = block.tensors[i];
    for (std::int64_t at = grain; at < tensor.count; at += grain) cuts.push_back(tensor.first + at);
    cuts.push_back(i + 1 < block.tensors.size() ? block.tensors[i + 1].first : block.parameters);
  }
  return cuts;
}

void cut_block(int index, const Block& block, const Workload& workload, std::int64_t size,
               std::vector<Chunk>& chunks) {
  std::int64_t first = 0;
  std::int64_t last = 0;  // the furthest legal cut so far
  int cell = 0;
  for (const std::int64_t cut : legal_cuts(block, workload.norm_block)) {
    if (cut - first > size && last > first) {
      chunks.push_back({index, cell++, first, last - first, Site::resident});
      first = last;
    }
    last = cut;
  }
  if (last > first) chunks.push_back({index, cell, first, last - first, Site::resident});
}

}  // namespace

std::int64_t default_chunk_parameters(const Workload& workload) {
  // 40 MiB of exact state is past the link's latency by far; a small model still gets 64 chunks.
  constexpr std::int64_t smallest = 16 << 10;
  constexpr std::int64_t largest = 4 << 20;
  constexpr std::int64_t most_chunks = 4096;
  const std::int64_t total = workload.parameters();
  return std::max(std::clamp(total / 64, smallest, largest), total / most_chunks);
}

std::vector<Chunk> cut_chunks(const Workload& workload, const Choices& choices) {
  std::vector<Chunk> chunks;
  for (int i = 0; i < static_cast<int>(workload.blocks.size()); ++i) {
    const Block& block = workload.blocks[static_cast<std::size_t>(i)];
    if (block.parameters > 0) cut_block(i, block, workload, choices.chunk_parameters, chunks);
  }
  const auto total = static_cast<double>(workload.parameters());
  std::int64_t behind = 0;  // parameters from the end up to this chunk's start
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    const auto share = static_cast<double>(behind) / total;
    chunk->site = share < choices.host_fraction      ? Site::host
                  : share < choices.offload_fraction ? Site::stream
                                                     : Site::resident;
    behind += chunk->count;
  }
  return chunks;
}

}  // namespace ebb::plan
