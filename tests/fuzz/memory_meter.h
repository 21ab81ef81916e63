// Counts what C++ allocates. Linking it replaces the process's operator new and delete.
#pragma once

#include "ebb/units.h"

namespace ebb::fuzz {

// From construction on; one at a time, all threads count.
class MemoryMeter {
 public:
  MemoryMeter();
  // The most bytes held at once that were allocated since construction.
  Bytes peak() const;
};

}  // namespace ebb::fuzz
