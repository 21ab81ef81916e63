// The end of a gradient: the sum of the micro-batches before is added, and squares are summed, for
// many parts in one launch. A warp has a norm block, of which it takes a piece after the other: all
// its lanes add and put the piece into shared memory, in wide accesses, and ask for the next; then
// half of them each follow one of the 16 chains of fp64 sums, whose order is fixed. (Chains that
// loaded from memory themselves took ten times what their bytes do: a tensor has too few of them to
// hide the latency.)
#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/optimizer_vectors.cuh"
#include "kernels/cuda/store_words.cuh"

namespace ebb::kernels {
namespace {

using namespace cuda_optimizer;

constexpr int kMostParts = 32;  // of a launch: their table is the kernel's argument
constexpr int kSums = 16;       // of a norm block
constexpr int kBlock = static_cast<int>(kNormBlock);
constexpr int kWarps = 4;  // of a thread block
constexpr int kAhead = 4;  // packs of each operand that a lane asks for at once

struct Parts {
  GradientPart at[kMostParts];
  std::int64_t first_block[kMostParts];  // of the norm blocks of all parts
  int count = 0;
  std::int64_t blocks = 0;
};

// 16 bytes of the wider type.
template <class G, class S>
constexpr int kWidth = 16 / static_cast<int>(sizeof(G) > sizeof(S) ? sizeof(G) : sizeof(S));

// N elements as words: single halves would take a register each.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  static constexpr int kWords = N * static_cast<int>(sizeof(T)) / 4;
  unsigned at[kWords];

  __device__ float get(int e) const {
    if constexpr (sizeof(T) == 4) return __uint_as_float(at[e]);
    return __uint_as_float(e % 2 == 0 ? at[e / 2] << 16 : at[e / 2] & 0xffff0000u);
  }
  // Sets all elements at once.
  __device__ void set(const float (&values)[N]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if constexpr (sizeof(T) == 4) {
        at[w] = __float_as_uint(values[w]);
      } else {
        at[w] = narrow<T>(values[2 * w]) | static_cast<unsigned>(narrow<T>(values[2 * w + 1]))
                                               << 16;
      }
    }
  }
};

template <class G, class S>
__device__ bool on_packs(const G* gradient, const S* sum) {
  constexpr int width = kWidth<G, S>;
  return reinterpret_cast<std::uintptr_t>(gradient) % sizeof(Pack<G, width>) == 0 &&
         reinterpret_cast<std::uintptr_t>(sum) % sizeof(Pack<S, width>) == 0;
}

// A piece of a block: a lane's packs of it, in registers.
template <class G, class S>
struct Piece {
  static constexpr int kWide = kWidth<G, S>;
  static constexpr int kCount = kAhead * 32 * kWide;
  static_assert(kBlock % kCount == 0);
  Pack<G, kWide> value[kAhead];
  Pack<S, kWide> more[kAhead];

  __device__ void load(const G* gradient, const S* sum, int lane) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = (k * 32 + lane) * kWide;
      value[k] = *reinterpret_cast<const Pack<G, kWide>*>(gradient + at);
      if (sum != nullptr) more[k] = *reinterpret_cast<const Pack<S, kWide>*>(sum + at);
    }
  }
  // gradient = round(sum + gradient), and a copy of it in `stage`.
  __device__ void finish(G* stage, G* gradient, bool summed, int lane) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = (k * 32 + lane) * kWide;
      if (summed) {
        float total[kWide];
#pragma unroll
        for (int e = 0; e < kWide; ++e) total[e] = __fadd_rn(value[k].get(e), more[k].get(e));
        value[k].set(total);
        store_words(gradient + at, value[k].at);
      }
      *reinterpret_cast<Pack<G, kWide>*>(stage + at) = value[k];
    }
  }
};

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

// A lane's chain goes on through `length` elements.
template <class G>
__device__ double with_squares(double total, const G* stage, int length, int lane) {
  int at = lane;
  for (; at + 15 * kSums < length; at += 16 * kSums) {
    float values[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) values[k] = widen(stage[at + k * kSums]);
#pragma unroll
    for (int k = 0; k < 16; ++k) total = with_square(total, values[k]);
  }
  for (; at < length; at += kSums) total = with_square(total, widen(stage[at]));
  return total;
}

template <class G, class S>
__global__ void __launch_bounds__(32 * kWarps) finish_kernel(const __grid_constant__ Parts parts) {
  constexpr int piece_count = Piece<G, S>::kCount;
  __shared__ __align__(16) G stages[kWarps][piece_count];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  if (index >= parts.blocks) return;
  int p = 0;
  while (p + 1 < parts.count && parts.first_block[p + 1] <= index) ++p;
  const GradientPart& part = parts.at[p];
  const std::int64_t block = index - parts.first_block[p], start = block * kNormBlock;
  const std::int64_t left = part.count - start;
  const int length = left < kNormBlock ? static_cast<int>(left) : kBlock;
  G* const stage = stages[warp];
  G* const gradient = static_cast<G*>(part.gradient) + start;
  const bool summed = part.sum != nullptr;
  const S* const sum = summed ? static_cast<const S*>(part.sum) + start : nullptr;
  const bool packs = length == kBlock && on_packs(gradient, sum);
  Piece<G, S> piece;
  if (packs) piece.load(gradient, sum, lane);
  double total = 0;
  for (int at = 0; at < length; at += piece_count) {
    const int count = min(piece_count, length - at);
    G* const here = gradient + at;
    if (packs) {
      piece.finish(stage, here, summed, lane);
      const int next = at + piece_count;
      if (next < kBlock) piece.load(gradient + next, summed ? sum + next : nullptr, lane);
    } else {
      finish_singles(stage, here, summed ? sum + at : nullptr, count, lane);
    }
    __syncwarp();
    if (lane < kSums) total = with_squares(total, stage, count, lane);
    __syncwarp();
  }
#pragma unroll
  for (int width = kSums / 2; width > 0; width /= 2) {
    total = __dadd_rn(total, __shfl_down_sync(0xffffffffu, total, width, kSums));
  }
  if (lane == 0) part.partials[block] = total;
}

template <class G, class S>
void launch(const Parts& parts, cudaStream_t stream) {
  finish_kernel<G, S><<<grid_for(parts.blocks, kWarps), 32 * kWarps, 0, stream>>>(parts);
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
