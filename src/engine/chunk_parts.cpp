#include "engine/chunk_parts.h"

#include <algorithm>

#include "kernels/optimizer_ops.h"

namespace ebb::engine {

ChunkMap map_chunks(const model::Parameters& parameters, const std::vector<plan::Chunk>& chunks) {
  ChunkMap map;
  map.parts.resize(chunks.size());
  map.chunks_of.resize(parameters.all.size());
  for (const model::Parameter& parameter : parameters.all) {
    map.first_square.push_back(map.squares);
    map.squares += kernels::norm_blocks(parameter.count());
  }
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const plan::Chunk& chunk = chunks[c];
    for (const int p : parameters.blocks[static_cast<std::size_t>(chunk.block)].parameters) {
      const model::Parameter& parameter = parameters.all[static_cast<std::size_t>(p)];
      const std::int64_t first = std::max(chunk.first, parameter.first);
      const std::int64_t end =
          std::min(chunk.first + chunk.count, parameter.first + parameter.count());
      if (first >= end) continue;
      const std::int64_t in_parameter = first - parameter.first;
      map.parts[c].push_back({.parameter = p,
                              .in_parameter = in_parameter,
                              .in_chunk = first - chunk.first,
                              .count = end - first,
                              .first_square = map.first_square[static_cast<std::size_t>(p)] +
                                              in_parameter / kernels::kNormBlock,
                              .decays = parameter.matrix});
      map.chunks_of[static_cast<std::size_t>(p)].push_back(static_cast<int>(c));
    }
  }
  return map;
}

}  // namespace ebb::engine
