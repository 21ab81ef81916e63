#include "plan/choices.h"

#include <algorithm>

namespace ebb::plan {
namespace {

// A block may be cut after whole norm blocks of a tensor, or where the next tensor starts; padding
// behind a tensor belongs to it. The furthest such cut that is at most `size` behind `first`, or
// the nearest if none is. There may be millions of them, so they are not listed.
std::int64_t next_cut(const Block& block, std::int64_t grain, std::int64_t first,
                      std::int64_t size) {
  std::int64_t cut = 0;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorRange& tensor = block.tensors[i];
    const bool last = i + 1 == block.tensors.size();
    const std::int64_t end = last ? block.parameters : block.tensors[i + 1].first;
    if (end <= first) continue;
    const std::int64_t parameters_end = tensor.first + tensor.count;
    if (cut == 0) cut = first + grain < parameters_end ? first + grain : end;
    if (end > first + size) {
      const std::int64_t within = std::min(first + size, parameters_end - 1) - tensor.first;
      return std::max(cut, tensor.first + within / grain * grain);
    }
    cut = end;
  }
  return cut;
}

void cut_block(int index, const Block& block, const Workload& workload, std::int64_t size,
               std::vector<Chunk>& chunks) {
  for (std::int64_t first = 0; first < block.parameters;) {
    const std::int64_t cut = next_cut(block, workload.norm_block, first, size);
    chunks.push_back({.block = index, .first = first, .count = cut - first});
    first = cut;
  }
}

// Whether the i-th of `all` is among so many that are spread evenly.
bool is_one_of(std::int64_t i, std::int64_t many, std::int64_t all) {
  return (i + 1) * many / all > i * many / all;
}

}  // namespace

std::int64_t default_chunk_parameters(const Workload& workload) {
  // 40 MiB of exact state is past the link's latency by far; a small model still gets 64 chunks.
  constexpr std::int64_t smallest = 16 << 10;
  constexpr std::int64_t largest = 4 << 20;
  const std::int64_t total = workload.parameters();
  return std::max(std::clamp(total / 64, smallest, largest), total / kMostChunks);
}

std::vector<Chunk> cut_chunks(const Workload& workload, const Choices& choices) {
  std::vector<Chunk> chunks;
  for (int i = 0; i < static_cast<int>(workload.blocks.size()); ++i) {
    const Block& block = workload.blocks[static_cast<std::size_t>(i)];
    if (block.parameters > 0) cut_block(i, block, workload, choices.chunk_parameters, chunks);
  }
  const auto total = static_cast<double>(workload.parameters());
  const double away = std::max(choices.host_fraction, choices.offload_fraction);
  std::int64_t behind = 0;  // parameters from the end up to this chunk's start
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    const auto share = static_cast<double>(behind) / total;
    if (share < choices.host_fraction) chunk->place = Place::cpu;
    if (share < away) {
      // On the disk are the first that leave the device, up to half a chunk more or less.
      const double half = static_cast<double>(chunk->count) / total / 2;
      const bool on_disk = share + half > away - choices.disk_fraction;
      chunk->home = on_disk ? choices.below : choices.state_home;
    }
    const auto blocks_behind = static_cast<std::int64_t>(workload.blocks.size()) - 1 - chunk->block;
    if (chunk->place == Place::cpu || blocks_behind < choices.host_sums) {
      chunk->sums = blocks_behind < choices.disk_sums ? choices.below : Tier::host;
    }
    behind += chunk->count;
  }
  return chunks;
}

std::vector<Tier> weight_homes(const Workload& workload, const Choices& choices) {
  const std::vector<int> layers = workload.all_of(BlockKind::layer);
  const auto count = static_cast<std::int64_t>(layers.size());
  const std::int64_t of_layers = std::min(choices.streamed_weights, count);
  std::vector<Tier> homes(workload.blocks.size(), Tier::device);
  std::vector<std::size_t> streamed;
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_one_of(i, of_layers, count)) {
      streamed.push_back(static_cast<std::size_t>(layers[static_cast<std::size_t>(i)]));
    }
  }
  std::int64_t rest = choices.streamed_weights - of_layers;
  for (std::size_t b = 0; b < homes.size() && rest > 0; ++b) {
    if (workload.blocks[b].kind == BlockKind::layer) continue;
    streamed.push_back(b);
    --rest;
  }
  const auto all = static_cast<std::int64_t>(streamed.size());
  for (std::int64_t i = 0; i < all; ++i) {
    const bool on_disk = is_one_of(i, std::min(choices.disk_weights, all), all);
    homes[streamed[static_cast<std::size_t>(i)]] = on_disk ? choices.below : Tier::host;
  }
  return homes;
}

Bytes state_bytes(const Workload& workload, const Chunk& chunk) {
  return workload.blocks[static_cast<std::size_t>(chunk.block)].states.bytes(chunk.count);
}

}  // namespace ebb::plan
