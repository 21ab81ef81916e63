#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>  // bad
#include <nvtx3/nvToolsExt.h>
