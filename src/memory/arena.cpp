#include "memory/arena.h"

#include "base/process_memory.h"

namespace ebb::memory {

Arena::Arena(std::string name, std::unique_ptr<device::Buffer> buffer)
    : Space(std::move(name)), buffer_(std::move(buffer)) {}

std::byte* Arena::at(Bytes offset, Bytes bytes) const {
  require_within(offset, bytes);
  return buffer_->data() + offset;
}

std::optional<Bytes> Arena::touched_bytes() const { return pages_touched(buffer_->data(), size()); }

}  // namespace ebb::memory
