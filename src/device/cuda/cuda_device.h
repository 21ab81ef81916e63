// An NVIDIA GPU. Compute and copy streams are queues of the driver, the host stream is a thread.
// Device memory is cudaMalloc's, host memory is mapped and pinned: both in exact sizes.
#pragma once

#include <string>

#include "device/cuda/cuda_clock.h"
#include "device/cuda/cuda_event.h"
#include "device/cuda/registered_memory.h"
#include "device/device.h"

namespace ebb::device {

class CudaDevice final : public Device {
 public:
  // `index` as CUDA counts them. Throws DeviceError where there is no such GPU.
  explicit CudaDevice(int index);

  std::string kind() const override { return "cuda"; }
  std::string name() const override { return name_; }
  std::string description() const override;
  // What is free now, less 1 GiB: the libraries load kernels and make contexts of their own later,
  // and what they take is outside the limit.
  Bytes device_memory() const override;
  // What is available, but at most three quarters of what the machine has: pinned memory is the
  // system's no more, and the rest of the process, the page cache and other programs need some.
  Bytes host_memory() const override;

  bool holds_up() const override { return true; }
  std::unique_ptr<Stream> create_stream(StreamKind kind, std::string name) override;
  std::unique_ptr<Event> create_event(StreamKind recorder) override;
  std::unique_ptr<Buffer> allocate_device(Bytes bytes) override;
  std::unique_ptr<Buffer> allocate_host(Bytes bytes) override;
  std::unique_ptr<ForeignStream> adopt_stream(void* handle) override;
  std::unique_ptr<Buffer> adopt_device_memory(void* data, Bytes bytes) override;

 private:
  int index_;
  std::string name_;
  RegisteredMemory memory_;
  HostFlags flags_;
  CudaClock clock_;
};

}  // namespace ebb::device
