// What device code is written on: matrices, elements read as floats and rounded once when stored,
// and sums over a block in one fixed order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/cuda/store_words.cuh"
#include "kernels/model_ops.h"

namespace ebb::kernels::cuda_model {

template <class T>
struct Matrix {
  T* data;
  std::int64_t stride;
  __device__ T* row(std::int64_t i) const { return data + i * stride; }
};

template <class T>
Matrix<T> in(const View& view) {
  return {static_cast<T*>(view.data), view.stride};
}
template <class T>
Matrix<const T> in(const ConstView& view) {
  return {static_cast<const T*>(view.data), view.stride};
}

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

// As to_bf16 of base/dtype.h to the bit, a NaN's payload included.
template <class T>
__device__ T narrow(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    const unsigned bits = __float_as_uint(value);
    const unsigned rounded = (bits & 0x7fffffffu) > 0x7f800000u
                                 ? (bits >> 16) | 0x40u
                                 : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return bf16{static_cast<std::uint16_t>(rounded)};
  } else {
    return value;
  }
}

// N elements that move together; 16 bytes or a multiple where the caller has checked the alignment.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

// The same bits as words, for packs that wait in registers: single halves would take one each.
template <class T, int N>
using Words = Pack<unsigned, N* static_cast<int>(sizeof(T)) / 4>;

template <class T, int N>
__device__ Words<T, N> load_words(const T* from) {
  return *reinterpret_cast<const Words<T, N>*>(from);
}

// Element e of a pack.
template <class T, int N>
__device__ float element(const Words<T, N>& words, int e) {
  if constexpr (std::is_same_v<T, bf16>) {
    const unsigned word = words.at[e / 2];
    return __uint_as_float(e % 2 == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    return __uint_as_float(words.at[e]);
  }
}

template <int N, class T>
__device__ void load(float (&to)[N], const T* from) {
  if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) {
    const Words<T, N> words = load_words<T, N>(from);
#pragma unroll
    for (int e = 0; e < N; ++e) to[e] = element<T, N>(words, e);
  } else {
    const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
    for (int e = 0; e < N; ++e) to[e] = widen(pack.at[e]);
  }
}

// Two at once by the hardware: as narrow(), but every NaN becomes 0x7fff. What takes some ten
// instructions an element in integers is half of one here.
__device__ inline unsigned narrow_pair(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Where T is bf16, to global memory.
template <int N, class T>
__device__ void store(T* to, const float (&from)[N]) {
  if constexpr (std::is_same_v<T, bf16> && N % 4 == 0) {
    Pack<unsigned, N / 2> pack;
#pragma unroll
    for (int e = 0; e < N / 2; ++e) pack.at[e] = narrow_pair(from[2 * e], from[2 * e + 1]);
    store_words(to, pack.at);
  } else {
    Pack<T, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) pack.at[e] = narrow<T>(from[e]);
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}

// As __expf(x) to the bit, but 0 below 2^-126, for sums where that is nothing: what the compiler
// puts around the hardware's exponential for the sake of denormals is more than the rest of it.
__device__ inline float exp_or_zero(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(__fmul_rn(x, 1.4426950408889634f)));
  return result;
}

// The same bits in every lane, by a symmetric butterfly. Every lane of the warp calls.
template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}

// The same bits in every thread: lanes as above, then warps in order. `parts` has room for 32;
// blocks are whole warps, and every thread of the block calls.
template <class T>
__device__ T block_sum(T value, T* parts) {
  value = warp_sum(value);
  __syncthreads();  // `parts` may still be read from the call before
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  T total = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += parts[warp];
  return total;
}

__device__ inline float block_max(float value, float* parts) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = parts[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) largest = fmaxf(largest, parts[warp]);
  return largest;
}

}  // namespace ebb::kernels::cuda_model
