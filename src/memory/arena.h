// One tier's memory for a run: a single piece of exact size, made before the first step. The layout
// says what lies where; the arena hands out addresses and keeps the high-water mark of what tasks
// really touched.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "device/device.h"

namespace ebb::memory {

class Arena {
 public:
  Arena(std::string name, std::unique_ptr<device::Buffer> buffer);

  Bytes size() const { return buffer_->bytes(); }
  // Any thread. Throws Error if the range is not within the arena.
  std::byte* at(Bytes offset, Bytes bytes) const;
  // A task used these bytes.
  void touch(Bytes offset, Bytes bytes);
  // The end of the highest range that was touched.
  Bytes high_water() const { return high_water_.load(std::memory_order_relaxed); }
  // Of memory of the process: what the system gave pages for, whoever touched them. It knows no
  // layout.
  std::optional<Bytes> touched_bytes() const;

 private:
  std::string name_;
  std::unique_ptr<device::Buffer> buffer_;
  std::atomic<Bytes> high_water_{0};
};

}  // namespace ebb::memory
