#include "device/cuda/registered_memory.h"

#include <algorithm>
#include <iterator>

namespace ebb::device {

Bytes RegisteredRange::left_in_piece(const void* at) const {
  const Bytes offset = static_cast<const std::byte*>(at) - begin;
  return std::min(bytes, (offset / piece + 1) * piece) - offset;
}

void RegisteredMemory::add(const RegisteredRange& range) {
  std::lock_guard lock(mutex_);
  ranges_[range.begin] = range;
}

void RegisteredMemory::remove(const void* begin) {
  std::lock_guard lock(mutex_);
  ranges_.erase(static_cast<const std::byte*>(begin));
}

std::optional<RegisteredRange> RegisteredMemory::find(const void* begin, Bytes bytes) const {
  const auto* at = static_cast<const std::byte*>(begin);
  std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return std::nullopt;
  const RegisteredRange& range = std::prev(after)->second;
  if (at - range.begin > range.bytes || bytes > range.bytes - (at - range.begin)) {
    return std::nullopt;
  }
  return range;
}

}  // namespace ebb::device
