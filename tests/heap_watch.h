// What the code under test takes from the heap, measured: tests link replacements of operator new
// and delete that count what the allocator really gave.
#pragma once

#include "ebb/units.h"

namespace ebb {

// From its making on, all threads together. One at a time.
class HeapWatch {
 public:
  HeapWatch();
  // Bytes that are held beyond those at the start, now and at the most.
  Bytes held() const;
  Bytes peak() const;

 private:
  Bytes start_;
};

}  // namespace ebb
