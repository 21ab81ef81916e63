#include "device/cuda/cuda_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/machine.h"
#include "device/cpu/cpu_stream.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_buffer.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda_support.h"

namespace ebb::device {
namespace {

constexpr Bytes kMargin = kGiB;

}  // namespace

CudaDevice::CudaDevice(int index) : index_(index) {
  check(cudaSetDevice(index_), "cudaSetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
  name_ = properties.name;
}

Bytes CudaDevice::device_memory() const {
  check(cudaSetDevice(index_), "cudaSetDevice");
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::max<Bytes>(0, static_cast<Bytes>(free) - kMargin);
}

Bytes CudaDevice::host_memory() const {
  return std::min(usable_memory() / 4 * 3, less_margin(available_memory()));
}

std::unique_ptr<Stream> CudaDevice::create_stream(StreamKind kind, std::string name) {
  if (kind == StreamKind::host) return std::make_unique<CpuStream>(std::move(name));
  return std::make_unique<CudaStream>(index_, memory_, clock_, kind, std::move(name));
}

std::unique_ptr<Event> CudaDevice::create_event(StreamKind recorder) {
  check(cudaSetDevice(index_), "cudaSetDevice");
  if (recorder == StreamKind::host) return std::make_unique<CudaHostEvent>(flags_.next());
  return std::make_unique<CudaEvent>();
}

std::unique_ptr<Buffer> CudaDevice::allocate_device(Bytes bytes) {
  check(cudaSetDevice(index_), "cudaSetDevice");
  return std::make_unique<CudaBuffer>(bytes, memory_);
}

std::unique_ptr<Buffer> CudaDevice::allocate_host(Bytes bytes) {
  check(cudaSetDevice(index_), "cudaSetDevice");
  return std::make_unique<PinnedBuffer>(bytes, memory_);
}

std::unique_ptr<ForeignStream> CudaDevice::adopt_stream(void* handle) {
  return std::make_unique<CudaForeignStream>(index_, static_cast<cudaStream_t>(handle));
}

std::unique_ptr<Buffer> CudaDevice::adopt_device_memory(void* data, Bytes bytes) {
  check(cudaSetDevice(index_), "cudaSetDevice");
  return std::make_unique<BorrowedCudaBuffer>(data, bytes, index_, memory_);
}

std::string CudaDevice::description() const {
  const CudaDescription gpu = describe_cuda();
  return fmt::format(
      "GPU: {}, compute capability {}, {} multiprocessors\nmemory: {}, {} free\n"
      "driver: knows CUDA {}; this build has {}\nlink: {} at {}\nhost memory for Ebb: {}\n",
      gpu.name, gpu.compute_capability, gpu.multiprocessors, format_bytes(gpu.memory),
      format_bytes(gpu.free_memory), gpu.driver_version, gpu.runtime_version,
      gpu.pci_link.empty() ? "speed hidden by the system" : gpu.pci_link, gpu.pci_address,
      format_bytes(host_memory()));
}

}  // namespace ebb::device
