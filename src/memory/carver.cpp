#include "memory/carver.h"

#include <limits>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::memory {

Carver Carver::measuring() {
  // Not null, so that arithmetic on it is well behaved; never dereferenced.
  return Carver(reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20),
                std::numeric_limits<Bytes>::max() / 2);
}

std::byte* Carver::take(Bytes bytes) {
  const Bytes start = (used_ + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes < 0 || start > capacity_ || bytes > capacity_ - start) {
    throw Error(fmt::format("a piece of {} bytes is too small: {} more wanted after {}", capacity_,
                            bytes, start));
  }
  used_ = start + bytes;
  return base_ + start;
}

}  // namespace ebb::memory
