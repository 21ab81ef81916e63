// The machine's processors as a device: device memory is an arena of the size the user states,
// lanes are threads. The way to train without a GPU, and the way all of the engine is tested.
#pragma once

#include "device/device.h"

namespace ebb::device {

class CpuDevice final : public Device {
 public:
  // Both tiers are carved from `memory`, the same for both.
  explicit CpuDevice(Bytes memory);
  // From what is available on this machine, less a margin.
  CpuDevice();

  std::string kind() const override { return "cpu"; }
  std::string name() const override;
  std::string description() const override;
  Bytes device_memory() const override;
  Bytes host_memory() const override;
  std::unique_ptr<Stream> create_stream(StreamKind kind, std::string name) override;
  std::unique_ptr<Event> create_event(StreamKind recorder) override;
  std::unique_ptr<Buffer> allocate_device(Bytes bytes) override;
  std::unique_ptr<Buffer> allocate_host(Bytes bytes) override;
  std::unique_ptr<ForeignStream> adopt_stream(void* handle) override;
  std::unique_ptr<Buffer> adopt_device_memory(void* data, Bytes bytes) override;

 private:
  Bytes memory_;
};

}  // namespace ebb::device
