#include "device/cuda/known_memory.h"

#include <algorithm>
#include <functional>

namespace ebb::device {

Bytes KnownRange::left_in_piece(const void* at) const {
  const Bytes offset = static_cast<const std::byte*>(at) - begin;
  return std::min(bytes, (offset / piece + 1) * piece) - offset;
}

void KnownMemory::add(const KnownRange& range) {
  std::lock_guard lock(mutex_);
  ranges_.push_back(range);
}

void KnownMemory::remove(const void* begin) {
  std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const KnownRange& range) { return range.begin == begin; });
}

std::optional<KnownRange> KnownMemory::find(const void* begin, Bytes bytes) const {
  const auto* at = static_cast<const std::byte*>(begin);
  const std::less_equal<> ordered;  // pointers into different buffers
  std::lock_guard lock(mutex_);
  for (const KnownRange& range : ranges_) {
    if (ordered(range.begin, at) && ordered(at, range.begin + range.bytes) &&
        bytes <= range.bytes - (at - range.begin)) {
      return range;
    }
  }
  return std::nullopt;
}

}  // namespace ebb::device
