#include "ebb/error.h"
#include "kernels/cuda/model_ops.h"

namespace ebb::kernels {

std::unique_ptr<ModelOps> create_cuda_model_ops() {
  throw DeviceError("this build of Ebb has no CUDA kernels for the model");
}

}  // namespace ebb::kernels
