// Sums of what tiles of long sequences give, 8 elements a thread.
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/cuda/model/long_attention.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr int kWidth = 8;
constexpr unsigned kThreads = 256;

template <bool First>
__global__ void add_packs(float* sums, const bf16* part, std::int64_t packs) {
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pack >= packs) return;
  float value[kWidth];
  load(value, part + pack * kWidth);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* const to = sums + pack * kWidth + half * 4;
    float sum[4] = {};
    if constexpr (!First) load(sum, to);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[e] += value[half * 4 + e];
    store(to, sum);
  }
}

__global__ void round_packs(Matrix<bf16> to, const float* sums, std::int64_t rows,
                            std::int64_t packs_of_row) {
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pack >= rows * packs_of_row) return;
  float value[kWidth];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum[4];
    load(sum, sums + pack * kWidth + half * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) value[half * 4 + e] = sum[e];
  }
  store(to.row(pack / packs_of_row) + pack % packs_of_row * kWidth, value);
}

unsigned blocks_of(std::int64_t packs) {
  return grid_size((packs + kThreads - 1) / kThreads, "attention_backward");
}

}  // namespace

void add_up(float* sums, const void* part, std::int64_t rows, std::int64_t cols, bool first,
            cudaStream_t stream) {
  const std::int64_t packs = rows * cols / kWidth;
  const auto* const from = static_cast<const bf16*>(part);
  const auto kernel = first ? add_packs<true> : add_packs<false>;
  kernel<<<blocks_of(packs), kThreads, 0, stream>>>(sums, from, packs);
  check_launch("attention_backward");
}

void round_sums(void* to, std::int64_t stride, const float* sums, std::int64_t rows,
                std::int64_t cols, cudaStream_t stream) {
  const std::int64_t packs_of_row = cols / kWidth;
  round_packs<<<blocks_of(rows * packs_of_row), kThreads, 0, stream>>>(
      {static_cast<bf16*>(to), stride}, sums, rows, packs_of_row);
  check_launch("attention_backward");
}

}  // namespace ebb::kernels::cuda_model
