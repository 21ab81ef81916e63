#include <cuda_runtime.h>  // bad

#include "../io/file.h"  // bad
#include "base/dtype.h"
#include "beside.h"
#include "kernels/matmul.h"  // bad
