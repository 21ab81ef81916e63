#include <oneapi/dnnl/dnnl.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "device/stream.h"
