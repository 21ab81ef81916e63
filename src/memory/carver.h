// Cuts one piece of memory into aligned parts, in order. The same code that carves real memory can
// carve none at all to find out how much it needs: Carver::measuring().
#pragma once

#include <algorithm>
#include <cstddef>

#include "ebb/units.h"

namespace ebb::memory {

class Carver {
 public:
  // Parts start at multiples of this, counted from the piece's start.
  static constexpr Bytes kAlignment = 64;

  Carver() = default;  // nothing to carve
  Carver(std::byte* base, Bytes bytes) : base_(base), capacity_(bytes) {}

  // Hands out addresses that must not be used, without end.
  static Carver measuring();

  // Throws Error when the piece is too small: the code that sized it is not the code that cuts it.
  std::byte* take(Bytes bytes);
  template <class T>
  T* take_as(std::int64_t count) {
    return reinterpret_cast<T*>(take(count * static_cast<Bytes>(sizeof(T))));
  }

  Bytes used() const { return used_; }
  // Covers what a copy of this one has taken since. Copies carve the same memory: what they hand
  // out takes turns in it.
  void cover(const Carver& copy) { used_ = std::max(used_, copy.used_); }

 private:
  std::byte* base_ = nullptr;
  Bytes capacity_ = 0;
  Bytes used_ = 0;
};

}  // namespace ebb::memory
