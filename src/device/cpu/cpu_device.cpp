#include "device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/to_size.h"
#include "device/cpu/cpu_stream.h"
#include "ebb/error.h"

namespace ebb::device {
namespace {

// Pages straight from the system: the exact size, zero at first, given back at once.
class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(Bytes bytes, std::string_view what) {
    bytes_ = bytes;
    if (bytes == 0) return;
    void* at =
        ::mmap(nullptr, to_size(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      throw DeviceError(fmt::format("cannot map {} ({} bytes) of {} memory: {}",
                                    format_bytes(bytes), bytes, what, std::strerror(errno)));
    }
    data_ = static_cast<std::byte*>(at);
    ::madvise(at, to_size(bytes), MADV_HUGEPAGE);  // a wish; refusal is fine
  }
  ~MappedBuffer() override {
    if (data_ != nullptr) ::munmap(data_, to_size(bytes_));
  }
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;
};

class BorrowedBuffer final : public Buffer {
 public:
  BorrowedBuffer(void* data, Bytes bytes) {
    data_ = static_cast<std::byte*>(data);
    bytes_ = bytes;
  }
};

}  // namespace

CpuDevice::CpuDevice(Bytes memory) : memory_(memory) {}
CpuDevice::CpuDevice() : CpuDevice(less_margin(available_memory())) {}

std::string CpuDevice::name() const { return "the machine's processors"; }

std::string CpuDevice::description() const {
  return fmt::format(
      "processors that may be used: {}\nmemory that is available: {}, of it {} for the "
      "device tier and {} for the host tier\n",
      usable_cpus(), format_bytes(memory_), format_bytes(device_memory()),
      format_bytes(host_memory()));
}

// What is on the device need not move, and weights, gradients and activations must be there; states
// can be on either. So the device gets most.
Bytes CpuDevice::device_memory() const { return memory_ - host_memory(); }
Bytes CpuDevice::host_memory() const { return memory_ / 4; }

std::unique_ptr<Stream> CpuDevice::create_stream(StreamKind, std::string name) {
  return std::make_unique<CpuStream>(std::move(name));
}
std::unique_ptr<Event> CpuDevice::create_event(StreamKind) { return std::make_unique<CpuEvent>(); }

std::unique_ptr<Buffer> CpuDevice::allocate_device(Bytes bytes) {
  return std::make_unique<MappedBuffer>(bytes, "device");
}
std::unique_ptr<Buffer> CpuDevice::allocate_host(Bytes bytes) {
  return std::make_unique<MappedBuffer>(bytes, "host");
}

std::unique_ptr<ForeignStream> CpuDevice::adopt_stream(void*) {
  return std::make_unique<CallingThread>();
}
std::unique_ptr<Buffer> CpuDevice::adopt_device_memory(void* data, Bytes bytes) {
  return std::make_unique<BorrowedBuffer>(data, bytes);
}

}  // namespace ebb::device
