#include "device/cuda/check.h"
#include "device/cuda/pause.h"

namespace ebb::device {
namespace {

__global__ void pause_kernel(std::int64_t microseconds) {
  for (std::int64_t i = 0; i < microseconds; ++i) __nanosleep(1000);
}

}  // namespace

void launch_pause(std::int64_t microseconds, cudaStream_t stream) {
  pause_kernel<<<1, 1, 0, stream>>>(microseconds);
  check(cudaGetLastError(), "launching a pause");
}

}  // namespace ebb::device
