#include "states/updates.h"

namespace ebb::states {

UpdateNumbers update_numbers(const Rule& rule, double learning_rate, std::int64_t step,
                             std::uint64_t seed) {
  return {.with_decay = step_numbers(rule, learning_rate, step, true, seed),
          .without_decay = step_numbers(rule, learning_rate, step, false, seed)};
}

std::vector<kernels::SpanUpdate> updates_of(const ChunkMap& map, std::int64_t c, std::byte* state,
                                            FunctionRef<const kernels::Step*(int)> step_of,
                                            FunctionRef<PartMemory(const Part&)> memory_of) {
  const Chunk& chunk = map[c];
  const StatePlanes all = planes(state, chunk.kind, chunk.count);
  std::vector<kernels::SpanUpdate> updates;
  updates.reserve(chunk.parts.size());
  for (const Part& part : chunk.parts) {
    const kernels::Step* step = step_of(part.parameter);
    if (step == nullptr) continue;
    const Tensor& tensor = map.of(part);
    const PartMemory memory = memory_of(part);
    kernels::StateSpan span = state_span(all, chunk.kind, part.in_chunk, part.count);
    span.weight = memory.weight;
    span.gradient = memory.gradient;
    span.gradient_type = chunk.gradient_type;
    span.tensor_key = tensor.key;
    span.first_element = part.in_parameter;
    updates.push_back({span, *step});
  }
  return updates;
}

std::vector<kernels::SpanUpdate> updates_of(const ChunkMap& map, std::int64_t chunk,
                                            std::byte* state, const UpdateNumbers& numbers,
                                            FunctionRef<PartMemory(const Part&)> memory_of) {
  return updates_of(
      map, chunk, state,
      [&](int parameter) {
        return map.tensors[parameter].decays ? &numbers.with_decay : &numbers.without_decay;
      },
      memory_of);
}

std::vector<kernels::SpanUpdate> updates_of(const ChunkMap& map, std::int64_t chunk,
                                            std::byte* state, const UpdateNumbers& numbers,
                                            const PartMemory& of_chunk) {
  const Bytes weight = size_of(map[chunk].kind.weight_type);
  const Bytes gradient = size_of(map[chunk].gradient_type);
  return updates_of(map, chunk, state, numbers, [&](const Part& part) {
    return PartMemory{of_chunk.weight + part.in_chunk * weight,
                      of_chunk.gradient + part.in_chunk * gradient};
  });
}

}  // namespace ebb::states
