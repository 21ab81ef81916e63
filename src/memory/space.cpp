#include "memory/space.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::memory {

std::byte* Space::at(Bytes, Bytes) const {
  throw Error(fmt::format("the {} has no addresses: transfers alone reach it", name_));
}
void Space::read(Bytes, void*, Bytes) {
  throw Error(fmt::format("the {} is read by its addresses", name_));
}
void Space::write(Bytes, const void*, Bytes) {
  throw Error(fmt::format("the {} is written by its addresses", name_));
}

void Space::touch(Bytes offset, Bytes bytes) {
  const Bytes end = offset + bytes;
  Bytes seen = high_water_.load(std::memory_order_relaxed);
  while (seen < end && !high_water_.compare_exchange_weak(seen, end, std::memory_order_relaxed)) {
  }
}

void Space::require_within(Bytes offset, Bytes bytes) const {
  if (offset < 0 || bytes < 0 || offset > size() || bytes > size() - offset) {
    throw Error(fmt::format("{} arena of {} bytes: {} bytes at {} are outside", name_, size(),
                            bytes, offset));
  }
}

}  // namespace ebb::memory
