// How the optimizer's kernels walk planes: vectors of elements where all planes are aligned for
// them, single ones before and behind. bf16 is handled in integers, as the hardware's conversion
// flushes denormals. Whatever includes this is compiled with --fmad=false, and every operation
// names its rounding: the compiler may neither fuse nor approximate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "device/cuda/check.h"

namespace ebb::kernels::cuda_optimizer {

inline constexpr int kThreads = 256;
// Elements a thread takes at once: 16 bytes of fp32, 8 of bf16, so that a warp's accesses to either
// are one run of memory without gaps.
inline constexpr int kVector = 4;

template <class T>
struct alignas(kVector * sizeof(T)) Vector {
  T at[kVector];
};

// bf16 as bits; what a plane's elements are in memory.
using Half = std::uint16_t;

inline __device__ float widen(float value) { return value; }
inline __device__ float widen(Half bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// To nearest even, as to_bf16().
template <class T>
__device__ T narrow(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Half>((bits >> 16) | 0x40u);
    return static_cast<Half>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}

// Which elements a thread takes: the first `vectors` threads take kVector in a row, from `head` on;
// the threads behind them take one each, of the head and of the rest.
struct Split {
  std::int64_t count = 0;
  std::int64_t head = 0;
  std::int64_t vectors = 0;

  __host__ __device__ std::int64_t threads() const { return vectors + (count - vectors * kVector); }
  __device__ std::int64_t vector_start(std::int64_t thread) const {
    return head + thread * kVector;
  }
  __device__ std::int64_t single(std::int64_t thread) const {
    const std::int64_t index = thread - vectors;
    return index < head ? index : index + vectors * kVector;
  }
};

// A plane and its element's size.
struct Plane {
  const void* data;
  std::size_t element;
};

// The shortest head after which all planes are aligned for vectors; none where they do not agree.
inline Split split_for(std::int64_t count, std::initializer_list<Plane> planes) {
  for (std::int64_t head = 0; head < kVector && head < count; ++head) {
    const bool aligned = std::all_of(planes.begin(), planes.end(), [&](const Plane& plane) {
      const auto address = reinterpret_cast<std::uintptr_t>(plane.data) +
                           static_cast<std::size_t>(head) * plane.element;
      return address % (kVector * plane.element) == 0;
    });
    if (aligned) return {count, head, (count - head) / kVector};
  }
  return {count, 0, 0};
}

inline __device__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

inline unsigned grid_for(std::int64_t threads, int per_block) {
  const std::int64_t blocks = (threads + per_block - 1) / per_block;
  if (blocks > 0x7fffffff)
    device::check(cudaErrorInvalidConfiguration, "a grid of over 2^31 blocks");
  return static_cast<unsigned>(blocks);
}

template <class T>
__device__ Vector<T> load(const T* data, std::int64_t at) {
  return *reinterpret_cast<const Vector<T>*>(data + at);
}
template <class T>
__device__ void store(T* data, std::int64_t at, const Vector<T>& value) {
  *reinterpret_cast<Vector<T>*>(data + at) = value;
}

}  // namespace ebb::kernels::cuda_optimizer
