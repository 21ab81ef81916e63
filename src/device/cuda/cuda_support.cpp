#include "device/cuda_support.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include <fmt/format.h>

#include "device/cuda/check.h"
#include "device/cuda/cuda_device.h"
#include "ebb/error.h"

namespace ebb::device {
namespace {

constexpr int kFirst = 0;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The runtime does not say how the link runs; the kernel does.
std::string pci_link(const std::string& address) {
  const std::string folder = "/sys/bus/pci/devices/" + address;
  const std::string speed = line_of(folder + "/current_link_speed");
  const std::string width = line_of(folder + "/current_link_width");
  return speed.empty() || width.empty() ? "" : fmt::format("{} x{}", speed, width);
}

void require_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (status == cudaSuccess && count > 0) return;
  throw DeviceError(fmt::format(
      "--device cuda: no NVIDIA GPU can be used here ({}). Check nvidia-smi, or use --device cpu",
      status == cudaSuccess ? "the driver sees none" : cudaGetErrorString(status)));
}

}  // namespace

bool cuda_available() noexcept {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  return status == cudaSuccess && count > 0;
}

CudaDescription describe_cuda() {
  require_gpu();
  check(cudaSetDevice(kFirst), "cudaSetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, kFirst), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  std::array<char, 32> address{};
  check(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), kFirst),
        "cudaDeviceGetPCIBusId");
  std::string pci = address.data();
  std::transform(pci.begin(), pci.end(), pci.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {.name = properties.name,
          .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
          .multiprocessors = properties.multiProcessorCount,
          .memory = static_cast<Bytes>(total),
          .free_memory = static_cast<Bytes>(free),
          .driver_version = version_text(driver),
          .runtime_version = version_text(runtime),
          .pci_address = pci,
          .pci_link = pci_link(pci)};
}

std::unique_ptr<Device> create_cuda_device() {
  require_gpu();
  return std::make_unique<CudaDevice>(kFirst);
}

}  // namespace ebb::device
