// The ceiling of a kernel that walks planes of memory: passes that read and write the same bytes of
// the same planes and compute nothing worth speaking of. Which way of doing that is the fastest
// depends on the machine and on the number of threads, so there are several, and the best of them
// is the ceiling. They run on the instruction set of the kernels (EBB_ISA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ebb/units.h"

namespace ebb::measure {

inline constexpr Bytes kLine = 64;
inline constexpr int kMostPlanes = 8;

// Starts at a multiple of kLine; what is missing to a whole line at its end is memory, too.
struct StreamedPlane {
  std::byte* data = nullptr;
  Bytes bytes = 0;
  bool written = true;  // in place; else it is only read
};

// One way to make a pass.
struct StreamVariant {
  // Planes that follow each other in memory and are written count as one long plane.
  bool joined = false;
  // So many lines of the longest plane are done before the next plane's turn.
  std::int64_t run_lines = 4;
  // So far ahead every line is prefetched; 0: that is left to the processor.
  Bytes ahead = 0;
  // So many planes are stored past the caches, from the first one that is written on.
  int planes_past_caches = 0;
  // Every thread gets one long range, else many short ones when it is free.
  bool one_range_a_thread = false;

  // "side by side, 4 lines a run, prefetch 512, streams one": for people.
  std::string name() const;
};

// All that are worth trying.
std::vector<StreamVariant> stream_variants();

// One pass over at most kMostPlanes planes: every 8 bytes of the written planes are read, combined
// with `mask` by exclusive or and written again (0 leaves them as they are), those of the others
// are read. Returns the exclusive or of all that was only read, whole lines each.
std::uint64_t stream_pass(ThreadPool& pool, const std::vector<StreamedPlane>& planes,
                          const StreamVariant& variant, std::uint64_t mask);

}  // namespace ebb::measure
