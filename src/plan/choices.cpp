#include "plan/choices.h"

#include <algorithm>

namespace ebb::plan {
namespace {

// No chunk is of two pieces where passes take the pieces one by one.
void cut_block(int index, const Block& block, const Workload& workload, const Choices& choices,
               List<Chunk>& chunks) {
  const bool pieces = is_cut(block, choices);
  std::size_t piece = 0;
  for (std::int64_t first = 0; first < block.parameters;) {
    std::int64_t cut = next_cut(block.tensors, block.parameters, workload.norm_block, first,
                                choices.chunk_parameters);
    if (pieces) {
      while (block.pieces[piece].first + block.pieces[piece].count <= first) ++piece;
      cut = std::min(cut, block.pieces[piece].first + block.pieces[piece].count);
    }
    chunks.push_back({.block = index, .first = first, .count = cut - first});
    first = cut;
  }
}

// Each goes to the rank that has least so far: as many parameters for each as chunks allow, and of
// the chunks that follow each other one for each rank.
void share_among_ranks(const Ranks& ranks, List<Chunk>& chunks) {
  List<std::int64_t> parameters(ranks.count, 0);
  for (Chunk& chunk : chunks) {
    const auto least = std::min_element(parameters.begin(), parameters.end());
    chunk.owner = static_cast<int>(least - parameters.begin());
    *least += chunk.count;
  }
}

}  // namespace

bool is_one_of(std::int64_t i, std::int64_t many, std::int64_t all) {
  return (i + 1) * many / all > i * many / all;
}

bool is_cut(const Block& block, const Choices& choices) {
  return choices.vocabulary_cut != 0 && !block.pieces.empty();
}

std::int64_t default_chunk_parameters(const Workload& workload) {
  const std::int64_t total = workload.parameters();
  return std::max(ebb::default_chunk_parameters(total), total / kMostChunks);
}

List<Chunk> cut_chunks(const Workload& workload, const Choices& choices) {
  List<Chunk> chunks;
  for (int i = 0; i < workload.blocks.count(); ++i) {
    const Block& block = workload.blocks[i];
    if (block.parameters > 0) cut_block(i, block, workload, choices, chunks);
  }
  const auto total = static_cast<double>(workload.parameters());
  const double away = std::max(choices.host_fraction, choices.offload_fraction);
  const auto count_of = [](const Chunk& chunk) { return chunk.count; };
  share_out(chunks, away, choices.host_fraction, count_of,
            [&](Chunk& chunk, Site site, double share) {
              if (site == Site::host) chunk.place = Place::cpu;
              if (site != Site::resident) {
                // On the disk are the first that leave the device, up to half a chunk more or less.
                const double half = static_cast<double>(chunk.count) / total / 2;
                const bool on_disk =
                    choices.disk_fraction > 0 && share + half > away - choices.disk_fraction;
                chunk.home = on_disk ? choices.below : choices.state_home;
              }
              const auto blocks_behind =
                  static_cast<std::int64_t>(workload.blocks.size()) - 1 - chunk.block;
              if (chunk.place == Place::cpu || blocks_behind < choices.host_sums) {
                chunk.sums = blocks_behind < choices.disk_sums ? choices.below : Tier::host;
              }
              // From several ranks they come to host memory.
              if (workload.ranks.grouped()) chunk.sums = Tier::host;
            });
  share_among_ranks(workload.ranks, chunks);
  return chunks;
}

List<Tier> weight_homes(const Workload& workload, const Choices& choices) {
  const List<int> layers = workload.all_of(BlockKind::layer);
  const auto count = layers.count();
  const std::int64_t of_layers = std::min(choices.streamed_weights, count);
  List<Tier> homes(workload.blocks.size(), Tier::device);
  List<int> streamed;
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_one_of(i, of_layers, count)) streamed.push_back(layers[i]);
  }
  std::int64_t rest = choices.streamed_weights - of_layers;
  for (int b = 0; b < homes.count() && rest > 0; ++b) {
    if (workload.blocks[b].kind == BlockKind::layer) continue;
    streamed.push_back(b);
    --rest;
  }
  const auto all = streamed.count();
  for (std::int64_t i = 0; i < all; ++i) {
    const bool on_disk = is_one_of(i, std::min(choices.disk_weights, all), all);
    homes[streamed[i]] = on_disk ? choices.below : Tier::host;
  }
  return homes;
}

Bytes state_bytes(const Workload& workload, const Chunk& chunk) {
  return workload.blocks[chunk.block].states.bytes(chunk.count);
}

}  // namespace ebb::plan
