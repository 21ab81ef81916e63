// A queue of the GPU's driver. Kernels find its handle here.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cuda_clock.h"
#include "device/cuda/handle.h"
#include "device/cuda/registered_memory.h"
#include "device/device.h"

namespace ebb::device {

// submit() runs the work at once, on the calling thread: what it queues on handle() is ordered by
// the GPU. Failures of the GPU show in a later call, which throws DeviceError.
class CudaStream final : public Stream {
 public:
  // `memory` and `clock` outlive the stream.
  CudaStream(int device, const RegisteredMemory& memory, CudaClock& clock, StreamKind kind,
             std::string name);
  ~CudaStream() override;  // ends what was submitted first

  cudaStream_t handle() const { return stream_.get(); }

  using Stream::submit;
  void submit(std::function<void()> work, Interval* ran) override;
  void wait(Event& event) override;
  void record(Event& event) override;
  void synchronize() override;
  void copy(void* to, const void* from, Bytes bytes) override;
  void fill(void* to, std::uint8_t value, Bytes bytes) override;
  void pause(std::int64_t microseconds) override;
  void copy_now(void* to, const void* from, Bytes bytes) override;
  double busy_seconds() override;

 private:
  // Around each submitted work.
  struct Bracket {
    EventHandle start;
    EventHandle stop;
    Interval* ran = nullptr;
    std::shared_ptr<const CudaInstant> base{};  // where somebody asks
  };
  Bracket take_bracket();
  void collect_brackets();
  void tell(const Bracket& bracket);
  RegisteredRange require_known(const void* at, Bytes bytes, const char* what) const;

  int device_;
  const RegisteredMemory& memory_;
  CudaClock& clock_;
  bool by_kernel_;  // copies over the link: beside kernels, those are small
  std::string name_;
  StreamHandle stream_;
  std::deque<Bracket> running_;
  std::vector<Bracket> spare_;
  double busy_seconds_ = 0;
  Interval::Time told_until_{};
};

// A queue of the driver that somebody else made; null is the default one.
class CudaForeignStream final : public ForeignStream {
 public:
  CudaForeignStream(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  void record(Event& event) override;
  void wait(Event& event) override;

 private:
  int device_;
  cudaStream_t stream_;
};

}  // namespace ebb::device
