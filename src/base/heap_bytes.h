// What objects of the standard library hold on the heap beyond themselves, what the allocator adds
// included: for classes that tell their size.
#pragma once

#include <string>
#include <vector>

#include "ebb/units.h"

namespace ebb {

// An allocator's own words and rounding, for each allocation.
inline constexpr Bytes kAllocationBytes = 24;

inline Bytes heap_bytes(const std::string& text) {
  constexpr std::size_t inside = 15;  // bytes that a string has room for in itself
  return text.capacity() > inside ? static_cast<Bytes>(text.capacity()) + kAllocationBytes : 0;
}

// The elements themselves, not what they hold.
template <class T>
Bytes heap_bytes(const std::vector<T>& list) {
  return list.capacity() > 0 ? static_cast<Bytes>(list.capacity() * sizeof(T)) + kAllocationBytes
                             : 0;
}

}  // namespace ebb
