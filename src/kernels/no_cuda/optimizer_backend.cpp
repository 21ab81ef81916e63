#include "kernels/optimizer_backend.h"

#include "ebb/error.h"

namespace ebb::kernels {

std::unique_ptr<OptimizerOps> create_cuda_optimizer() {
  throw ConfigError(
      "this build of Ebb has no CUDA kernels. Configure it with -DEBB_CUDA=ON on a machine with "
      "the CUDA toolkit");
}

}  // namespace ebb::kernels
