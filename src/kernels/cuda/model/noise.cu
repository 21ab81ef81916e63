#include "kernels/cuda/model/noise.h"

#include <cstdint>

#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 1024;

__device__ unsigned scrambled(unsigned bits) {
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

// The sum of four random bytes is nearly normal.
__device__ float normal(unsigned bits) {
  constexpr float mean = 510.0f, deviation = 147.8f;
  const unsigned sum = (bits & 0xff) + (bits >> 8 & 0xff) + (bits >> 16 & 0xff) + (bits >> 24);
  return (static_cast<float>(sum) - mean) / deviation;
}

// A bf16 in each half of a word; the high one is the number as fp32, too.
__global__ void fill_words(unsigned* words, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const unsigned bits = scrambled(static_cast<unsigned>(i) * 0x9e3779b9u);
    words[i] = narrow_pair(normal(bits), normal(scrambled(bits + 0x9e3779b9u)));
  }
}

}  // namespace

void fill_noise(std::byte* data, Bytes bytes, cudaStream_t stream) {
  fill_words<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<unsigned*>(data), bytes / 4);
  check_launch("fill_noise");
}

}  // namespace ebb::kernels::cuda_model
