#include "memory/arena.h"

#include <fmt/format.h>

#include "base/process_memory.h"
#include "ebb/error.h"

namespace ebb::memory {

Arena::Arena(std::string name, std::unique_ptr<device::Buffer> buffer)
    : name_(std::move(name)), buffer_(std::move(buffer)) {}

std::byte* Arena::at(Bytes offset, Bytes bytes) const {
  if (offset < 0 || bytes < 0 || offset > size() || bytes > size() - offset) {
    throw Error(fmt::format("{} arena of {} bytes: {} bytes at {} are outside", name_, size(),
                            bytes, offset));
  }
  return buffer_->data() + offset;
}

std::optional<Bytes> Arena::touched_bytes() const { return pages_touched(buffer_->data(), size()); }

void Arena::touch(Bytes offset, Bytes bytes) {
  const Bytes end = offset + bytes;
  Bytes seen = high_water_.load(std::memory_order_relaxed);
  while (seen < end && !high_water_.compare_exchange_weak(seen, end, std::memory_order_relaxed)) {
  }
}

}  // namespace ebb::memory
