// How parameters lie in chunks: the unit of placing, moving and updating a state. A chunk's parts
// are of one type each of weight and gradient; a part starts at a multiple of the norm's block
// within its parameter and of the int8 format's block within the chunk, so no block of either is
// cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/chunking.h"
#include "base/list.h"
#include "states/format.h"

namespace ebb::states {

// A parameter as its state sees it.
struct Tensor {
  std::int64_t count = 0;
  StateKind kind{};
  DType gradient_type = DType::bf16;
  bool decays = true;
  std::uint64_t key = 0;          // of the random numbers that compact formats round with
  std::int64_t first_square = 0;  // index of its first sum of squares; map_tensors() sets it
};

// A run of one parameter's elements within a chunk.
struct Part {
  int parameter = 0;
  std::int64_t in_parameter = 0;  // where it starts, from the parameter's start
  std::int64_t in_chunk = 0;      // from the chunk's start
  std::int64_t count = 0;
};

struct Chunk {
  Site site = Site::resident;
  StateKind kind{};
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;       // with the gaps that align its parts
  std::int64_t parameters = 0;  // without
  std::vector<Part> parts{};

  Bytes state_bytes() const { return states::state_bytes(kind, count); }
  Bytes weight_bytes() const { return count * size_of(kind.weight_type); }
  Bytes gradient_bytes() const { return count * size_of(gradient_type); }
  // Where an element's grain of a plane starts, from the start of the chunk's state.
  Bytes offset(Plane plane, std::int64_t in_chunk) const {
    return offset_of(plane, kind, count) + plane_bytes(plane, kind, in_chunk);
  }
};

struct ChunkMap {
  List<Tensor> tensors{};              // by parameter
  List<Chunk> chunks{};                // in any order that suits their movers
  List<std::vector<int>> chunks_of{};  // by parameter, in the parameter's order
  std::int64_t squares = 0;            // sums of squares of all parameters together

  Chunk& operator[](std::int64_t chunk) { return chunks[chunk]; }
  const Chunk& operator[](std::int64_t chunk) const { return chunks[chunk]; }
  const Tensor& of(const Part& part) const { return tensors[part.parameter]; }
  // Index of a part's first sum of squares.
  std::int64_t first_square(const Part& part) const;
};

// A map without chunks.
ChunkMap map_tensors(std::vector<Tensor> tensors);

// Parameters one behind the other, as chunks are cut from them, and where each lies: at multiples
// of the int8 format's block, in order. All are of one kind and one type of gradient.
struct Run {
  std::vector<int> parameters{};
  std::vector<TensorRange> places{};

  // The last parameter that starts at the element or before it, by its index here.
  std::size_t index_at(std::int64_t element) const;
};

// The chunk [first, first + count) of a run, which next_cut() has cut. Those of a parameter come in
// its order.
void add_chunk(ChunkMap& map, const Run& run, std::int64_t first, std::int64_t count);

}  // namespace ebb::states
