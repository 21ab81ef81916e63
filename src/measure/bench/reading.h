// How fast memory is read and nothing else: the ceiling of what reads all weights once and writes
// hardly anything, as a single token does. Which way of reading is the fastest depends on the
// machine and on the number of threads, so several are tried and the best of them is the rate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/runtime.h"
#include "measure/bench/streaming.h"

namespace ebb::measure {

// One way to read a piece of memory once: cut into so many streams, which every thread goes along
// side by side.
struct ReadWay {
  int streams = 1;  // at most kMostPlanes
  StreamVariant variant{};

  // "2 streams, 4 lines a run, prefetch 512, one range": for people.
  std::string name() const;
};

// All that are worth trying.
std::vector<ReadWay> read_ways();

// Reads whole lines from an address that is a multiple of kLine. Returns the exclusive or of their
// words.
std::uint64_t read_pass(ThreadPool& pool, std::span<std::byte> memory, const ReadWay& way);

struct ReadRate {
  double bytes_per_second = 0;
  std::string way{};  // that was the fastest
};

// Of host memory, by all threads of the runtime, from more memory than caches hold. The fastest
// pass counts. Takes so many seconds, or one pass of every way; 0: from little memory, for tests.
ReadRate host_read_rate(engine::Runtime& runtime, double seconds);

// Of device memory, by the device. On the cpu device that is host memory. On a GPU it is the
// faster of two: the optimizer's sums of squares, which only read, and a copy within the memory,
// whose bytes are read and written and so count twice.
ReadRate device_read_rate(engine::Runtime& runtime, double seconds);

}  // namespace ebb::measure
