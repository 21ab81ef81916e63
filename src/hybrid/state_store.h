// The parameters and their states as one thing, wherever their chunks lie: what saves, loads and
// digests use. Between steps, with empty lanes.
#pragma once

#include <vector>

#include "base/list.h"
#include "device/device.h"
#include "hybrid/chunks.h"
#include "hybrid/memory.h"
#include "states/store.h"

namespace ebb::hybrid {

// Where the store finds planes. Weights are in the caller's memory, and where the CPU has copies
// there, too: writing one writes both.
class ChunkHomes : public states::ChunkMemory {
 public:
  // Keeps references to all of it. Copies are made on the stream.
  ChunkHomes(const List<Parameter>& parameters, const ChunkMap& map, const Memory& memory,
             device::Stream& stream)
      : parameters_(parameters), map_(map), memory_(memory), stream_(stream) {}

  void read(Plane plane, int chunk, const Part& part, void* to) override;
  void write(Plane plane, int chunk, const Part& part, const void* from) override;
  void clear(Plane plane, int chunk) override;
  // The CPU's copies become the caller's weights.
  void copy_weights();

  const List<Parameter>& parameters() const { return parameters_; }

 private:
  // Where the part's plane is kept, and the CPU's copy of its weight, or null.
  std::byte* address(Plane plane, int chunk, const Part& part) const;
  std::byte* copy_of_weight(int chunk, const Part& part) const;

  const List<Parameter>& parameters_;
  const ChunkMap& map_;
  const Memory& memory_;
  device::Stream& stream_;
};

class StateStore : private ChunkHomes, public states::Store {
 public:
  // Keeps references to all of it.
  StateStore(const List<Parameter>& parameters, const ChunkMap& map, const Memory& memory,
             ThreadPool& pool, device::Stream& stream)
      : ChunkHomes(parameters, map, memory, stream), Store(map, *this, pool, memory.staging()) {}

  using ChunkHomes::parameters;
  using states::Store::read;
  using states::Store::write;

  // The caller's weights are the masters: low halves are zero, and the CPU's copies are theirs.
  void take_weights();
};

}  // namespace ebb::hybrid
