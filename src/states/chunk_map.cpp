#include "states/chunk_map.h"

#include <algorithm>

#include "base/to_size.h"
#include "kernels/optimizer_ops.h"

namespace ebb::states {

std::int64_t ChunkMap::first_square(const Part& part) const {
  return of(part).first_square + part.in_parameter / kernels::kNormBlock;
}

ChunkMap map_tensors(std::vector<Tensor> tensors) {
  ChunkMap map{.tensors = std::move(tensors)};
  map.chunks_of.resize(map.tensors.size());
  for (Tensor& tensor : map.tensors) {
    tensor.first_square = map.squares;
    map.squares += kernels::norm_blocks(tensor.count);
  }
  return map;
}

std::size_t Run::index_at(std::int64_t element) const {
  const auto behind =
      std::upper_bound(places.begin(), places.end(), element,
                       [](std::int64_t e, const TensorRange& place) { return e < place.first; });
  return to_size(std::max<std::ptrdiff_t>(behind - places.begin(), 1)) - 1;
}

void add_chunk(ChunkMap& map, const Run& run, std::int64_t first, std::int64_t count) {
  Chunk chunk{.count = count};
  for (std::size_t i = run.index_at(first);
       i < run.places.size() && run.places[i].first < first + count; ++i) {
    const TensorRange& place = run.places[i];
    const std::int64_t begin = std::max(first, place.first);
    const std::int64_t end = std::min(first + count, place.first + place.count);
    if (begin >= end) continue;  // padding behind it
    chunk.parts.push_back({.parameter = run.parameters[i],
                           .in_parameter = begin - place.first,
                           .in_chunk = begin - first,
                           .count = end - begin});
    chunk.parameters += end - begin;
    map.chunks_of[run.parameters[i]].push_back(static_cast<int>(map.chunks.size()));
  }
  const Tensor& tensor = map.of(chunk.parts.front());
  chunk.kind = tensor.kind;
  chunk.gradient_type = tensor.gradient_type;
  map.chunks.push_back(std::move(chunk));
}

}  // namespace ebb::states
