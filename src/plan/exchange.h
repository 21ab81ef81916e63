// Which planes of gradients cross the network when a round of groups is done: from each rank that
// has a group to the owners of the chunks. Rules, the engine and tests go by it alike, and each
// rank finds in it what the others expect.
#pragma once

#include "base/list.h"
#include "plan/program.h"
#include "plan/workload.h"

namespace ebb::plan {

// A plane of a chunk: bytes of what this rank sends, or of what it receives.
struct PlaneMessage {
  int peer = 0;
  bool comes = false;
  int chunk = 0;
  Range range{};
};

// For chunks that follow each other, of which the first begins at `begin` in its block. What is
// sent lies as the chunks do; what comes lies by chunk and sender, each from a multiple of the
// alignment on.
List<PlaneMessage> plane_messages(const Workload&, const List<Chunk>& all, const List<int>& chunks,
                                  std::int64_t begin, std::int64_t round);

// Bytes of what comes, and of the part of it that is of a chunk.
Bytes incoming_bytes(const List<PlaneMessage>&);
Range incoming_of(const List<PlaneMessage>&, int chunk);

// The larger of what leaves and what comes, which go at once.
Bytes moved_bytes(const List<PlaneMessage>&);

}  // namespace ebb::plan
