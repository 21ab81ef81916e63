#include "kernels/cuda/model/noise.h"

#include <cstdint>

#include "kernels/cuda/model/launch.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 1024;

// Both halves of a word have a bf16's sign and mantissa at random and one of two exponents.
__global__ void fill_words(unsigned* words, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    auto bits = static_cast<unsigned>(i) * 0x9e3779b9u;
    bits = (bits ^ bits >> 16) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    words[i] = ((bits ^ bits >> 16) & 0x80ff80ffu) | 0x3f003f00u;
  }
}

}  // namespace

void fill_noise(std::byte* data, Bytes bytes, cudaStream_t stream) {
  fill_words<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<unsigned*>(data), bytes / 4);
  check_launch("fill_noise");
}

}  // namespace ebb::kernels::cuda_model
