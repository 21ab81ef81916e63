#include "hybrid/chunks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/optimizer_ops.h"

namespace ebb::hybrid {
namespace {

std::int64_t align_up(std::int64_t count) {
  return kernels::state_blocks(count) * kernels::kStateBlock;
}

void assign_sites(std::vector<Chunk>& chunks, const Choices& choices) {
  double total = 0;
  for (const Chunk& chunk : chunks) total += static_cast<double>(chunk.parameters);
  std::int64_t behind = 0;  // parameters from the end up to the chunk
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    const double share = static_cast<double>(behind) / total;
    chunk->site = share < choices.host_fraction      ? Site::host
                  : share < choices.offload_fraction ? Site::stream
                                                     : Site::resident;
    behind += chunk->parameters;
  }
}

}  // namespace

std::vector<Chunk> cut_chunks(const std::vector<Parameter>& parameters, const Choices& choices) {
  std::vector<Chunk> chunks;
  std::map<std::pair<DType, DType>, std::size_t> open;  // the chunk that has room, by types
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const Parameter& parameter = parameters[static_cast<std::size_t>(p)];
    const auto types = std::pair(parameter.weight_type, parameter.gradient_type);
    std::int64_t done = 0;
    while (done < parameter.count) {
      const auto found = open.find(types);
      const std::int64_t start = found == open.end() ? 0 : align_up(chunks[found->second].count);
      const std::int64_t room = choices.chunk_parameters - start;
      const std::int64_t left = parameter.count - done;
      const std::int64_t count =
          left <= room ? left : room / kernels::kNormBlock * kernels::kNormBlock;
      if (found == open.end() || count <= 0) {
        open[types] = chunks.size();
        chunks.push_back({.kind = {.format = choices.format,
                                   .weight_type = parameter.weight_type,
                                   .moments = optim::moments_of(choices.rule)},
                          .gradient_type = parameter.gradient_type});
        continue;
      }
      Chunk& chunk = chunks[found->second];
      chunk.parts.push_back(
          {.parameter = p, .in_parameter = done, .in_chunk = start, .count = count});
      chunk.count = start + count;
      chunk.parameters += count;
      done += count;
    }
  }
  assign_sites(chunks, choices);
  return chunks;
}

}  // namespace ebb::hybrid
