#include "device/device.h"

#include <fmt/format.h>

#include "device/cpu/cpu_device.h"
#include "device/cuda_support.h"
#include "ebb/error.h"

namespace ebb::device {

std::unique_ptr<Device> create_device(const std::string& kind) {
  if (kind == "auto") return create_device(cuda_available() ? "cuda" : "cpu");
  if (kind == "cpu") return std::make_unique<CpuDevice>();
  if (kind == "cuda") return create_cuda_device();
  throw ConfigError(
      fmt::format("--device {}: Ebb knows the devices 'cpu', 'cuda' and 'auto'", kind));
}

}  // namespace ebb::device
