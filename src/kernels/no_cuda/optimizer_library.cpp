#include "kernels/optimizer_library.h"

#include "ebb/error.h"

namespace ebb::kernels {

std::unique_ptr<OptimizerLibrary> create_cuda_optimizer() {
  throw ConfigError(
      "this build of Ebb has no CUDA kernels. Configure it with -DEBB_CUDA=ON on a machine with "
      "the CUDA toolkit");
}

}  // namespace ebb::kernels
