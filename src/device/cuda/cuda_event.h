// The two kinds of events of a CUDA device: those that the GPU's streams record, and those that the
// host lane records and the GPU can wait for without a thread in between.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>

#include "device/cpu/cpu_stream.h"
#include "device/cuda/handle.h"
#include "device/device.h"

namespace ebb::device {

// Recorded by a CudaStream. A stream of the GPU that waits takes the record as of the call. A
// thread that waits does so late: cudaEventSynchronize looks at the last record when the thread
// comes to it, which may be one of a later step. That would wait for too much, and for ever when
// the later record itself waits for this very thread (an update on the host waits for its weights'
// last way up; the next way up waits for the update). So records take turns on two events: as the
// executor keeps three events a task, by the step's number, and at most two steps are under way,
// the event of one record is not used again before six steps later.
class CudaEvent final : public Event {
 public:
  CudaEvent();

  std::uint64_t ticket() override { return recorded_; }
  // Any thread.
  void wait_for(std::uint64_t ticket) override;

  void record(cudaStream_t stream);
  // Nothing if it was never recorded.
  void make_wait(cudaStream_t stream);

 private:
  cudaEvent_t of(std::uint64_t ticket) const { return events_[ticket % 2].get(); }

  std::array<EventHandle, 2> events_;
  std::uint64_t recorded_ = 0;  // the issuing thread's
};

// Small counters in pinned host memory that the GPU can read.
class FlagPage {
 public:
  static constexpr std::size_t kFlags = 1024;

  FlagPage();
  ~FlagPage();
  FlagPage(const FlagPage&) = delete;
  FlagPage& operator=(const FlagPage&) = delete;

  std::uint32_t* host(std::size_t flag) const { return host_ + flag; }
  std::uint32_t* device(std::size_t flag) const { return device_ + flag; }

 private:
  std::uint32_t* host_ = nullptr;
  std::uint32_t* device_ = nullptr;
};

// Hands out flags, each once, page after page. A page goes with the last event that uses it.
class HostFlags {
 public:
  struct Flag {
    std::shared_ptr<FlagPage> page;
    std::size_t index = 0;
  };
  Flag next();

 private:
  std::shared_ptr<FlagPage> page_;
  std::size_t used_ = 0;
};

// Recorded by the host lane's thread: a CpuEvent that also writes the number it reached to a flag,
// which the GPU's front end compares by itself. The flag has the number's low 32 bits, and the
// comparison is of their difference as a signed number: it goes wrong only if 2^31 records came
// between the flag and the wait, where in truth there are at most two.
class CudaHostEvent final : public CpuEvent {
 public:
  explicit CudaHostEvent(HostFlags::Flag flag) : flag_(std::move(flag)) {}

  void reach(std::uint64_t number, const std::exception_ptr& failure) override;
  // Nothing if it was never recorded.
  void make_wait(cudaStream_t stream);

 private:
  HostFlags::Flag flag_;
};

}  // namespace ebb::device
