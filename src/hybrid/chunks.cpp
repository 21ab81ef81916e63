#include "hybrid/chunks.h"

#include <map>
#include <utility>

#include "kernels/optimizer_ops.h"

namespace ebb::hybrid {
namespace {

// The first free element of a run. A parameter starts at a block of the int8 format, as its scales
// are by block.
std::int64_t end_of(const states::Run& run) {
  if (run.places.empty()) return 0;
  const TensorRange& last = run.places.back();
  return last.first + kernels::state_blocks(last.count) * kernels::kStateBlock;
}

}  // namespace

ChunkMap cut_chunks(const std::vector<Parameter>& parameters, const Choices& choices) {
  std::vector<states::Tensor> tensors;
  std::map<std::pair<DType, DType>, states::Run> runs;  // by types
  for (const Parameter& parameter : parameters) {
    states::Run& run = runs[{parameter.weight_type, parameter.gradient_type}];
    run.places.push_back({end_of(run), parameter.count});
    run.parameters.push_back(static_cast<int>(tensors.size()));
    tensors.push_back({.count = parameter.count,
                       .kind = {.format = choices.format,
                                .weight_type = parameter.weight_type,
                                .moments = states::moments_of(choices.rule)},
                       .gradient_type = parameter.gradient_type,
                       .decays = parameter.decays,
                       .key = parameter.key});
  }
  // Runs are cut one by one, but chunks are numbered in the caller's order: sites are shared out
  // from the end of the list.
  struct Cut {
    const states::Run* run;
    std::int64_t first, count;
  };
  std::map<std::pair<int, std::int64_t>, Cut> cuts;  // by the element that they begin with
  for (const auto& [types, run] : runs) {
    for (std::int64_t first = 0, end = 0; first < end_of(run); first = end) {
      end = next_cut(run.places, end_of(run), kernels::kNormBlock, first, choices.chunk_parameters);
      const std::size_t i = run.index_at(first);
      cuts[{run.parameters[i], first - run.places[i].first}] = {&run, first, end - first};
    }
  }
  ChunkMap map = states::map_tensors(std::move(tensors));
  for (const auto& [begin, cut] : cuts) {
    states::add_chunk(map, *cut.run, cut.first, cut.count);
    Chunk& made = map.chunks.back();
    made.count = made.parts.back().in_chunk + made.parts.back().count;  // no padding at its end
  }
  share_out(
      map.chunks, choices.offload_fraction, choices.host_fraction,
      [](const Chunk& chunk) { return chunk.parameters; },
      [](Chunk& chunk, Site site, double) { chunk.site = site; });
  return map;
}

}  // namespace ebb::hybrid
