#include "engine/parameter_store.h"

namespace ebb::engine {

ProgramMemory::Kept ProgramMemory::find(Plane plane, int c, std::int64_t in_chunk) const {
  if (plane != Plane::weight) {
    return {program_.persistent.states[c], map_[c].offset(plane, in_chunk)};
  }
  const Bytes element = size_of(map_[c].kind.weight_type);
  const plan::ObjectId own = program_.persistent.chunk_weights[c];
  if (own >= 0) return {own, in_chunk * element};
  const plan::Chunk& chunk = program_.chunks[c];
  return {program_.persistent.weights[chunk.block], (chunk.first + in_chunk) * element};
}

void ProgramMemory::read(Plane plane, int c, const states::Part& part, void* to) {
  const Kept from = find(plane, c, part.in_chunk);
  executor_.read_now(from.object, from.first, to,
                     states::plane_bytes(plane, map_[c].kind, part.count));
}

void ProgramMemory::write(Plane plane, int c, const states::Part& part, const void* from) {
  const Kept to = find(plane, c, part.in_chunk);
  const Bytes bytes = states::plane_bytes(plane, map_[c].kind, part.count);
  executor_.write_now(to.object, to.first, from, bytes);
  const plan::ObjectId copy = program_.persistent.weight_copies[c];
  if (plane != Plane::weight || copy < 0) return;
  executor_.write_now(copy, states::plane_bytes(plane, map_[c].kind, part.in_chunk), from, bytes);
}

void ProgramMemory::clear(Plane plane, int c) {
  const Kept all = find(plane, c, 0);
  executor_.clear_now(all.object, all.first,
                      states::plane_bytes(plane, map_[c].kind, map_[c].count));
}

}  // namespace ebb::engine
