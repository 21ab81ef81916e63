// How the parameters are cut into chunks, and which chunk is updated where. A chunk's parts are of
// one type each of weight and gradient; a parameter's parts start at multiples of the norm's block
// from its start and of the int8 format's block from the chunk's, so no block of either is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "hybrid/settings.h"
#include "optim/format.h"

namespace ebb::hybrid {

enum class Site : std::uint8_t { resident, stream, host };

// A run of one parameter's elements.
struct Part {
  int parameter = 0;
  std::int64_t in_parameter = 0;  // where it starts, from the parameter's start
  std::int64_t in_chunk = 0;      // from the chunk's start
  std::int64_t count = 0;
};

struct Chunk {
  Site site = Site::resident;
  optim::StateKind kind;
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;  // with the gaps that align its parts
  std::int64_t parameters = 0;
  std::vector<Part> parts{};

  Bytes state_bytes() const { return optim::state_bytes(kind, count); }
  Bytes weight_bytes() const { return count * size_of(kind.weight_type); }
  Bytes gradient_bytes() const { return count * size_of(gradient_type); }
};

// In the order of the parameters, as far as types allow. The chunks at the end are the host's,
// before them come those that are streamed, and the first stay.
std::vector<Chunk> cut_chunks(const std::vector<Parameter>& parameters, const Choices& choices);

}  // namespace ebb::hybrid
