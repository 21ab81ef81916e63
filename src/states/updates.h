// The update of a chunk, as the kernels take it.
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "kernels/optimizer_ops.h"
#include "states/chunk_map.h"
#include "states/rules.h"

namespace ebb::states {

// A step's numbers for parameters of either kind.
struct UpdateNumbers {
  kernels::Step with_decay;
  kernels::Step without_decay;
};
UpdateNumbers update_numbers(const Rule& rule, double learning_rate, std::int64_t step,
                             std::uint64_t seed);

// The first element of a part's weight and of its gradient, wherever the update runs.
struct PartMemory {
  std::byte* weight = nullptr;
  const std::byte* gradient = nullptr;
};

// A span for each part of the chunk, whose state lies at `state`, with what `step_of` has for its
// parameter; none where that is null.
std::vector<kernels::SpanUpdate> updates_of(const ChunkMap& map, std::int64_t chunk,
                                            std::byte* state,
                                            FunctionRef<const kernels::Step*(int)> step_of,
                                            FunctionRef<PartMemory(const Part&)> memory_of);
std::vector<kernels::SpanUpdate> updates_of(const ChunkMap& map, std::int64_t chunk,
                                            std::byte* state, const UpdateNumbers& numbers,
                                            FunctionRef<PartMemory(const Part&)> memory_of);
// The same where weights and gradients lie as the state's planes do: the chunk's, one behind the
// other.
std::vector<kernels::SpanUpdate> updates_of(const ChunkMap& map, std::int64_t chunk,
                                            std::byte* state, const UpdateNumbers& numbers,
                                            const PartMemory& of_chunk);

}  // namespace ebb::states
