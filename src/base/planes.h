// How several arrays of the same elements ("planes") lie in one piece of memory: for plans, which
// know no arithmetic, and for the states of the optimizer, which know no plans.
#pragma once

#include <cstdint>

#include "ebb/units.h"

namespace ebb {

// A plane has `bytes` for every `per` elements, and for what is left of them at the end. Numbers of
// two bytes are {2, 1}; blocks of 32 with a scale inside are {34, 32}; a scale beside them is a
// plane, {4, 32}. No bytes: there is no such plane.
struct Grain {
  Bytes bytes = 0;
  std::int64_t per = 1;

  constexpr Bytes size_of(std::int64_t count) const { return (count + per - 1) / per * bytes; }
  friend constexpr bool operator==(const Grain&, const Grain&) = default;
};

// Every plane starts at a multiple of this from the piece's start: a cache line, a full vector.
inline constexpr Bytes kPlaneAlignment = 64;

// Planes one behind the other.
struct PlaneStack {
  Bytes end = 0;  // of the last plane

  // Puts a plane of so many bytes on top and returns where it starts. Empty ones take no place.
  constexpr Bytes add(Bytes bytes) {
    if (bytes == 0) return end;
    const Bytes start = (end + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
    end = start + bytes;
    return start;
  }
};

}  // namespace ebb
