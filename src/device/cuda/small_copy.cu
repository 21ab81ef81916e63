#include "device/cuda/small_copy.h"

#include <algorithm>
#include <cstdint>

#include "device/cuda/check.h"

namespace ebb::device {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 32;  // enough for the link; the rest is other kernels'

template <class T>
__global__ void copy_words(T* to, const T* from, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    to[i] = from[i];
  }
}

template <class T>
void launch(void* to, const void* from, Bytes bytes, cudaStream_t stream) {
  const std::int64_t count = bytes / static_cast<Bytes>(sizeof(T));
  const std::int64_t blocks = std::min(kMostBlocks, (count + kThreads - 1) / kThreads);
  copy_words<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<T*>(to), static_cast<const T*>(from), count);
  check(cudaGetLastError(), "launching a small copy");
}

}  // namespace

void launch_small_copy(void* to, const void* from, Bytes bytes, cudaStream_t stream) {
  const auto bits = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) |
                    static_cast<std::uintptr_t>(bytes);
  if (bits % sizeof(int4) == 0) return launch<int4>(to, from, bytes, stream);
  if (bits % sizeof(int) == 0) return launch<int>(to, from, bytes, stream);
  launch<char>(to, from, bytes, stream);
}

bool can_copy_small(int device) {
  int same = 0;
  check(cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, device),
        "cudaDeviceGetAttribute");
  return same != 0;
}

}  // namespace ebb::device
