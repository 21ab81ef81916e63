#include "device/device.h"

#include <fmt/format.h>

#include "device/cpu/cpu_device.h"
#include "ebb/error.h"

namespace ebb::device {

std::unique_ptr<Device> create_device(const std::string& kind) {
  if (kind == "cpu") return std::make_unique<CpuDevice>();
  throw ConfigError(fmt::format("--device {}: this build of Ebb has the device 'cpu' only", kind));
}

}  // namespace ebb::device
