// The memory of a CUDA device's buffers: what copies of its streams may touch, and in what pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "ebb/units.h"

namespace ebb::device {

struct RegisteredRange {
  const std::byte* begin = nullptr;
  Bytes bytes = 0;
  bool on_device = false;
  // The driver takes a copy or a fill only within one registration; host memory is registered in
  // pieces of this size.
  Bytes piece = 0;

  // Bytes from `at` to the end of its piece.
  Bytes left_in_piece(const void* at) const;
};

// Any thread. The ranges do not overlap.
class RegisteredMemory {
 public:
  void add(const RegisteredRange& range);
  void remove(const void* begin);
  // The buffer that holds all of these bytes.
  std::optional<RegisteredRange> find(const void* begin, Bytes bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, RegisteredRange, std::less<>> ranges_;  // by their begin
};

}  // namespace ebb::device
