#include "device/cuda/check.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::device {

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw DeviceError(
      fmt::format("{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace ebb::device
