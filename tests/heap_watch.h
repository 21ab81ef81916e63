// What the code under test takes from the heap, measured: tests link replacements of operator new
// and delete that count what the allocator really gave. Sanitized builds have an allocator of their
// own and processes of another size: no_heap_watch.cpp stands in, and what measures memory is
// skipped.
#pragma once

#include "ebb/units.h"

namespace ebb {

// From its making on, all threads together. One at a time.
class HeapWatch {
 public:
  // False in a sanitized build, where nothing is counted.
  static bool works();

  HeapWatch();
  // Bytes that are held beyond those at the start, now and at the most.
  Bytes held() const;
  Bytes peak() const;

 private:
  Bytes start_;
};

}  // namespace ebb
