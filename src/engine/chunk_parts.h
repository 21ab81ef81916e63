// Which parameters a chunk holds, and where their sums of squares go.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.h"
#include "plan/choices.h"

namespace ebb::engine {

// The overlap of a chunk with one parameter.
struct ChunkPart {
  int parameter = 0;
  std::int64_t in_parameter = 0;  // where it starts, from the parameter's start
  std::int64_t in_chunk = 0;      // from the chunk's start
  std::int64_t count = 0;
  std::int64_t first_square = 0;  // index of its first sum of squares
  bool decays = false;
};

struct ChunkMap {
  std::vector<std::vector<ChunkPart>> parts;  // by chunk
  std::vector<std::vector<int>> chunks_of;    // by parameter, in order
  std::vector<std::int64_t> first_square;     // by parameter
  std::int64_t squares = 0;
};

ChunkMap map_chunks(const model::Parameters&, const std::vector<plan::Chunk>&);

}  // namespace ebb::engine
