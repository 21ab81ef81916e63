#include "memory/space.h"

#include <algorithm>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "base/to_size.h"
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

void Space::clear(Bytes offset, Bytes bytes) {
  constexpr std::align_val_t alignment{64 * kKiB};  // more than any tier asks for
  constexpr Bytes most = kMiB;
  const auto free = [&](std::byte* memory) {
    if (!stalled()) ::operator delete(memory, alignment);
  };
  const auto length = to_size(std::min(most, bytes));
  const std::unique_ptr<std::byte, decltype(free)> zeros(
      static_cast<std::byte*>(::operator new(length, alignment)), free);
  std::fill_n(zeros.get(), length, std::byte{});
  for (Bytes done = 0; done < bytes; done += most) {
    write(offset + done, zeros.get(), std::min(most, bytes - done));
  }
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
