#include "device/cuda_support.h"

#include "ebb/error.h"

namespace ebb::device {
namespace {

[[noreturn]] void refuse() {
  throw ConfigError(
      "--device cuda: this build of Ebb has no CUDA. Configure it with -DEBB_CUDA=ON on a machine "
      "with the CUDA toolkit and cuDNN, or use --device cpu");
}

}  // namespace

bool cuda_available() noexcept { return false; }
CudaDescription describe_cuda() { refuse(); }
std::unique_ptr<Device> create_cuda_device() { refuse(); }

}  // namespace ebb::device
