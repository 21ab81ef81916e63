// The GPU's clock beside the steady clock. The driver tells only how far two events are apart, in
// milliseconds of 24 bits; so times are taken from an event whose own time is known, and from a
// fresh one every second: then rounding is below a microsecond, and two crystals that differ by 20
// in a million are off by 20 microseconds at most.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda/handle.h"

namespace ebb::device {

// A moment that both clocks know.
class CudaInstant {
 public:
  using Time = std::chrono::steady_clock::time_point;

  CudaInstant();
  // Now. Blocks until `idle`, a stream without work, has come to it: some microseconds.
  void take(cudaStream_t idle);
  Time time() const { return time_; }
  // The time of an event with timing that was recorded after this instant and has been reached.
  Time time_of(cudaEvent_t event) const;

 private:
  EventHandle event_;
  Time time_{};
};

class CudaClock {
 public:
  // One that is not older than a second. Any thread; the GPU is the one that the thread has set.
  std::shared_ptr<const CudaInstant> instant();

 private:
  std::mutex mutex_;
  StreamHandle idle_;
  // The last is the newest; others are taken again when nobody uses them any more.
  std::vector<std::shared_ptr<CudaInstant>> instants_;
};

}  // namespace ebb::device
