// The end of a gradient: the sum of the micro-batches before is added, and squares are summed, for
// many parts in one launch. A warp has a norm block: all its lanes add and put the block into
// shared memory, in wide accesses; then half of them each follow one of the 16 chains of fp64 sums,
// whose order is fixed. (Chains that loaded from memory themselves took ten times what their bytes
// do: a tensor has too few of them to hide the latency.)
#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/optimizer_vectors.cuh"

namespace ebb::kernels {
namespace {

using namespace cuda_optimizer;

constexpr int kMostParts = 32;  // of a launch: their table is the kernel's argument
constexpr int kSums = 16;       // of a norm block
constexpr int kBlock = static_cast<int>(kNormBlock);
constexpr int kStageBytes = 32 << 10;  // of a thread block: seven fit on a multiprocessor

template <class G>
constexpr int kWarps = kStageBytes / (kBlock * static_cast<int>(sizeof(G)));

struct Parts {
  GradientPart at[kMostParts];
  std::int64_t first_block[kMostParts];  // of the norm blocks of all parts
  int count = 0;
  std::int64_t blocks = 0;
};

// 16 bytes of the wider type.
template <class G, class S>
constexpr int kWidth = 16 / static_cast<int>(sizeof(G) > sizeof(S) ? sizeof(G) : sizeof(S));

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

template <class G, class S>
__device__ bool on_packs(const G* gradient, const S* sum) {
  constexpr int width = kWidth<G, S>;
  return reinterpret_cast<std::uintptr_t>(gradient) % sizeof(Pack<G, width>) == 0 &&
         reinterpret_cast<std::uintptr_t>(sum) % sizeof(Pack<S, width>) == 0;
}

// gradient = round(sum + gradient) of a whole block, and a copy of it in `stage`.
template <class G, class S>
__device__ void finish_packs(G* stage, G* gradient, const S* sum, int lane) {
  constexpr int width = kWidth<G, S>, rounds = kBlock / (32 * width);
  constexpr int ahead = 4;  // loads of each operand in flight
  static_assert(rounds % ahead == 0);
  for (int round = 0; round < rounds; round += ahead) {
    Pack<G, width> value[ahead];
    Pack<S, width> more[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int at = ((round + k) * 32 + lane) * width;
      value[k] = *reinterpret_cast<const Pack<G, width>*>(gradient + at);
      if (sum != nullptr) more[k] = *reinterpret_cast<const Pack<S, width>*>(sum + at);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int at = ((round + k) * 32 + lane) * width;
      if (sum != nullptr) {
#pragma unroll
        for (int e = 0; e < width; ++e) {
          value[k].at[e] = narrow<G>(__fadd_rn(widen(value[k].at[e]), widen(more[k].at[e])));
        }
        *reinterpret_cast<Pack<G, width>*>(gradient + at) = value[k];
      }
      *reinterpret_cast<Pack<G, width>*>(stage + at) = value[k];
    }
  }
}

// The same for `length` elements anywhere.
template <class G, class S>
__device__ void finish_singles(G* stage, G* gradient, const S* sum, int length, int lane) {
  for (int at = lane; at < length; at += 32) {
    G value = gradient[at];
    if (sum != nullptr) {
      value = narrow<G>(__fadd_rn(widen(value), widen(sum[at])));
      gradient[at] = value;
    }
    stage[at] = value;
  }
}

// A square of an fp32 is exact in fp64, so a fused multiply-add rounds as the sum of the product
// does.
__device__ double with_square(double sum, double value) { return __fma_rn(value, value, sum); }

template <class G, class S>
__global__ void __launch_bounds__(32 * kWarps<G>)
    finish_kernel(const __grid_constant__ Parts parts) {
  __shared__ __align__(16) G stages[kWarps<G>][kBlock];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kWarps<G> + warp;
  if (index >= parts.blocks) return;
  int p = 0;
  while (p + 1 < parts.count && parts.first_block[p + 1] <= index) ++p;
  const GradientPart& part = parts.at[p];
  const std::int64_t block = index - parts.first_block[p], start = block * kNormBlock;
  const std::int64_t left = part.count - start;
  const int length = left < kNormBlock ? static_cast<int>(left) : kBlock;
  G* const stage = stages[warp];
  G* const gradient = static_cast<G*>(part.gradient) + start;
  const S* const sum = part.sum == nullptr ? nullptr : static_cast<const S*>(part.sum) + start;
  if (length == kBlock && on_packs(gradient, sum)) {
    finish_packs(stage, gradient, sum, lane);
  } else {
    finish_singles(stage, gradient, sum, length, lane);
  }
  __syncwarp();
  double total = 0;
  if (lane < kSums) {
    int at = lane;
    for (; at + 15 * kSums < length; at += 16 * kSums) {
      float values[16];
#pragma unroll
      for (int k = 0; k < 16; ++k) values[k] = widen(stage[at + k * kSums]);
#pragma unroll
      for (int k = 0; k < 16; ++k) total = with_square(total, values[k]);
    }
    for (; at < length; at += kSums) total = with_square(total, widen(stage[at]));
  }
#pragma unroll
  for (int width = kSums / 2; width > 0; width /= 2) {
    total = __dadd_rn(total, __shfl_down_sync(0xffffffffu, total, width, kSums));
  }
  if (lane == 0) part.partials[block] = total;
}

template <class G, class S>
void launch(const Parts& parts, cudaStream_t stream) {
  finish_kernel<G, S><<<grid_for(parts.blocks, kWarps<G>), 32 * kWarps<G>, 0, stream>>>(parts);
  device::check(cudaGetLastError(), "launching the kernel that finishes gradients");
}

}  // namespace

void launch_finish(std::span<const GradientPart> parts, DType gradient_type, DType sum_type,
                   cudaStream_t stream) {
  const bool wide = gradient_type == DType::f32, wide_sum = sum_type == DType::f32;
  Parts some;
  const auto flush = [&] {
    if (some.count == 0) return;
    if (wide) {
      wide_sum ? launch<float, float>(some, stream) : launch<float, Half>(some, stream);
    } else {
      wide_sum ? launch<Half, float>(some, stream) : launch<Half, Half>(some, stream);
    }
    some = {};
  };
  for (const GradientPart& part : parts) {
    if (part.count == 0) continue;
    some.at[some.count] = part;
    some.first_block[some.count] = some.blocks;
    some.blocks += norm_blocks(part.count);
    if (++some.count == kMostParts) flush();
  }
  flush();
}

}  // namespace ebb::kernels
