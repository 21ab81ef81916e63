// An address for every object, computed before anything runs from the objects' lifetimes. Objects
// that are never alive together share addresses.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "plan/program.h"

namespace ebb::plan {

struct Layout {
  std::vector<Bytes> offsets;               // by object, within its tier's arena
  std::array<Bytes, kTiers.size()> size{};  // of the tier's arena: the predicted peak

  Bytes size_of(Tier tier) const { return size[static_cast<std::size_t>(tier)]; }
};

// What a tier's arena may be.
struct Room {
  Bytes wanted = 0;  // as large as this even where less would do: what shares less waits less
  Bytes most = std::numeric_limits<Bytes>::max();
};
using Rooms = std::array<Room, kTiers.size()>;

// The most bytes alive at once on a tier: no layout can be smaller.
Bytes peak_alive(const Program&, Tier);

// The smallest arenas found, or what is wanted if that is more. Deterministic. Where an arena would
// have to be larger than it may be, its size is one that is too large, and its offsets are void.
Layout lay_out(const Program&, const Rooms& = {});

// Adds to every task the waits that its uses and shared addresses demand: after the last writer of
// what it reads, after the last users of what it writes, and after the last users of whatever lay
// at the address before. Waits on the task's own lane and doubled ones are left out.
void add_waits(Program&, const Layout&);

}  // namespace ebb::plan
