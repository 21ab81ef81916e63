#include "hybrid/state_store.h"

#include <algorithm>
#include <array>

#include "exec/lanes.h"

namespace ebb::hybrid {

using states::plane_bytes;

std::byte* ChunkHomes::address(Plane plane, int c, const Part& part) const {
  if (plane == Plane::weight) {
    return parameters_[part.parameter].weight + plane_bytes(plane, map_[c].kind, part.in_parameter);
  }
  return memory_.home(c).state + map_[c].offset(plane, part.in_chunk);
}

std::byte* ChunkHomes::copy_of_weight(int c, const Part& part) const {
  std::byte* copies = memory_.home(c).weight;
  if (copies == nullptr) return nullptr;
  return copies + plane_bytes(Plane::weight, map_[c].kind, part.in_chunk);
}

void ChunkHomes::read(Plane plane, int c, const Part& part, void* to) {
  stream_.copy_now(to, address(plane, c, part), plane_bytes(plane, map_[c].kind, part.count));
}

void ChunkHomes::write(Plane plane, int c, const Part& part, const void* from) {
  const Bytes bytes = plane_bytes(plane, map_[c].kind, part.count);
  stream_.copy_now(address(plane, c, part), from, bytes);
  std::byte* copy = plane == Plane::weight ? copy_of_weight(c, part) : nullptr;
  if (copy != nullptr) stream_.copy_now(copy, from, bytes);
}

void ChunkHomes::clear(Plane plane, int c) {
  std::byte* all = address(plane, c, {});
  const Bytes bytes = plane_bytes(plane, map_[c].kind, map_[c].count);
  // Everything else lives in host memory, which needs no lane.
  if (map_[c].site != Site::resident) {
    std::fill_n(all, bytes, std::byte{0});
    return;
  }
  exec::Lanes::clear_now(stream_, all, bytes);
}

void ChunkHomes::copy_weights() {
  for (int c = 0; c < static_cast<int>(map_.chunks.size()); ++c) {
    if (map_[c].site != Site::host) continue;
    for (const Part& part : map_[c].parts) {
      read(Plane::weight, c, part, copy_of_weight(c, part));
    }
  }
}

void StateStore::take_weights() {
  Store::clear(std::array{Plane::low});
  copy_weights();
}

}  // namespace ebb::hybrid
