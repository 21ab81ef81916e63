// An address for every object, computed before anything runs from the objects' lifetimes. Objects
// that are never alive together share addresses.
#pragma once

#include <limits>

#include "base/list.h"
#include "plan/program.h"

namespace ebb::plan {

struct Layout {
  List<Bytes> offsets;    // by object, within its tier's arena
  PerTier<Bytes> size{};  // of the tier's arena: the predicted peak

  Bytes size_of(Tier tier) const { return size[tier]; }
};

// Bounds on the size of a tier's arena.
struct ArenaBounds {
  Bytes wanted = 0;  // as large as this even where less would do: what shares less waits less
  Bytes most = std::numeric_limits<Bytes>::max();
};
using Bounds = PerTier<ArenaBounds>;

// The most bytes alive at once on a tier: no layout can be smaller.
Bytes peak_alive(const Program&, Tier);

// The smallest arenas found, or what is wanted if that is more. Deterministic. Where an arena would
// have to be larger than it may be, its size is one that is too large, and its offsets are void.
Layout lay_out(const Program&, const Bounds& = {});

// A second program over the arenas of a first one: what is persistent stands first in both, in the
// same order, and lies where it lay; the rest is placed anew. Where it does not fit beside that,
// the arena's size is larger than the first one's.
Layout lay_out_beside(const Program&, const Program& first, const Layout& of_first);

}  // namespace ebb::plan
