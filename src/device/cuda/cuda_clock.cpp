#include "device/cuda/cuda_clock.h"

#include <algorithm>
#include <utility>

#include "device/cuda/check.h"

namespace ebb::device {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{1};
// The GPU's moment lies between two looks at the steady clock: how far they may be apart. A thread
// that was interrupted in between tries again.
constexpr std::chrono::microseconds kCloseEnough{20};
constexpr int kTries = 8;

}  // namespace

CudaInstant::CudaInstant() : event_(make_event(cudaEventDefault)) {}

void CudaInstant::take(cudaStream_t idle) {
  for (int i = 0; i < kTries; ++i) {
    const Time before = steady_clock::now();
    check(cudaEventRecord(event_.get(), idle), "cudaEventRecord");
    check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
    const auto between = steady_clock::now() - before;
    time_ = before + between / 2;
    if (between < kCloseEnough) return;
  }
}

CudaInstant::Time CudaInstant::time_of(cudaEvent_t event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_.get(), event), "cudaEventElapsedTime");
  const std::chrono::duration<double, std::milli> since(milliseconds);
  return time_ + std::chrono::duration_cast<steady_clock::duration>(since);
}

std::shared_ptr<const CudaInstant> CudaClock::instant() {
  const std::lock_guard lock(mutex_);
  if (!instants_.empty() && steady_clock::now() - instants_.back()->time() < kLongest) {
    return instants_.back();
  }
  if (idle_.get() == nullptr) idle_ = make_stream();
  auto free = std::find_if(instants_.begin(), instants_.end(),
                           [](const auto& instant) { return instant.use_count() == 1; });
  if (free == instants_.end()) {
    free = instants_.insert(instants_.end(), std::make_shared<CudaInstant>());
  }
  std::rotate(free, free + 1, instants_.end());
  instants_.back()->take(idle_.get());
  return instants_.back();
}

}  // namespace ebb::device
