#include "kernels/cuda/backend.h"

#include "ebb/error.h"

namespace ebb::kernels {

Backend create_cuda_backend(device::Device&, ThreadPool&) {
  throw ConfigError(
      "this build of Ebb has no CUDA kernels. Configure it with -DEBB_CUDA=ON on a machine with "
      "the "
      "CUDA toolkit and cuDNN");
}

}  // namespace ebb::kernels
