// Compiled with --fmad=false, and every operation names its rounding: the compiler may neither fuse
// nor approximate. bf16 is handled in integers, as the hardware's conversion flushes denormals.
#include "kernels/cuda/optimizer_kernels.h"

#include <algorithm>
#include <initializer_list>

#include "device/cuda/check.h"

namespace ebb::kernels {
namespace {

constexpr int kThreads = 256;
// Elements a thread takes at once: 16 bytes of fp32, 8 of bf16, so that a warp's accesses to either
// are one run of memory without gaps.
constexpr int kVector = 4;

template <class T>
struct alignas(kVector * sizeof(T)) Vector {
  T at[kVector];
};

// bf16 as bits; what a plane's elements are in memory.
using Half = std::uint16_t;

__device__ float widen(float value) { return value; }
__device__ float widen(Half bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

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
Split split_for(std::int64_t count, std::initializer_list<Plane> planes) {
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

__device__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

unsigned grid_for(std::int64_t threads, int per_block) {
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

template <class W, class G>
struct AdamWPlanes {
  W* weight;
  Half* low;  // null where the weight is the master
  float* first;
  float* second;
  const G* gradient;
};

__device__ float join(Half high, Half low) {
  const int rest = static_cast<std::int16_t>(low);
  return __uint_as_float((static_cast<unsigned>(high) << 16) + static_cast<unsigned>(rest));
}

// The GPU's own NaN is 0x7fffffff, whose high half, rounded up, would be a zero to the model: it is
// stored as the one whose high half is a NaN.
__device__ void split(float master, Half& high, Half& low) {
  unsigned bits = __float_as_uint(master);
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
  high = static_cast<Half>((bits + 0x8000u) >> 16);
  low = static_cast<Half>(bits);
}

// The new master; see OptimizerOps::adamw.
__device__ float update(float p, float& first, float& second, float gradient, const AdamWStep& step,
                        float gradient_scale) {
  const float g = __fmul_rn(gradient, gradient_scale);
  const float m = __fmaf_rn(step.beta1, first, __fmul_rn(step.one_minus_beta1, g));
  const float v = __fmaf_rn(step.beta2, second, __fmul_rn(step.one_minus_beta2, __fmul_rn(g, g)));
  const float d = __fmaf_rn(__fsqrt_rn(v), step.inverse_root_correction2, step.epsilon);
  first = m;
  second = v;
  return __fmaf_rn(-step.step_size, __fdiv_rn(m, d), __fmul_rn(p, step.decay_factor));
}

template <class W, class G>
__device__ void update_element(W& weight, Half& low, float& first, float& second, G gradient,
                               const AdamWStep& step, float gradient_scale) {
  if constexpr (sizeof(W) == 4) {
    weight = update(weight, first, second, widen(gradient), step, gradient_scale);
  } else {
    const float p = update(join(weight, low), first, second, widen(gradient), step, gradient_scale);
    split(p, weight, low);
  }
}

template <class W, class G>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(AdamWPlanes<W, G> planes, Split parts, AdamWStep step, const StepScale* scale) {
  constexpr bool kSplit = sizeof(W) == 2;
  const StepScale now = *scale;
  if (now.apply == 0) return;
  const std::int64_t thread = thread_index();
  if (thread < parts.vectors) {
    const std::int64_t at = parts.vector_start(thread);
    Vector<W> weight = load(planes.weight, at);
    Vector<Half> low{};
    if constexpr (kSplit) low = load(planes.low, at);
    Vector<float> first = load(planes.first, at);
    Vector<float> second = load(planes.second, at);
    const Vector<G> gradient = load(planes.gradient, at);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      update_element(weight.at[i], low.at[i], first.at[i], second.at[i], gradient.at[i], step,
                     now.gradient_scale);
    }
    store(planes.weight, at, weight);
    if constexpr (kSplit) store(planes.low, at, low);
    store(planes.first, at, first);
    store(planes.second, at, second);
  } else if (thread < parts.threads()) {
    const std::int64_t at = parts.single(thread);
    W weight = planes.weight[at];
    Half low = 0;
    if constexpr (kSplit) low = planes.low[at];
    float first = planes.first[at];
    float second = planes.second[at];
    update_element(weight, low, first, second, planes.gradient[at], step, now.gradient_scale);
    planes.weight[at] = weight;
    if constexpr (kSplit) planes.low[at] = low;
    planes.first[at] = first;
    planes.second[at] = second;
  }
}

template <class W, class G>
void launch_adamw_of(const StateSpan& span, const AdamWStep& step, const StepScale* scale,
                     cudaStream_t stream) {
  const AdamWPlanes<W, G> planes{static_cast<W*>(span.weight), reinterpret_cast<Half*>(span.low),
                                 span.first, span.second, static_cast<const G*>(span.gradient)};
  const void* low = sizeof(W) == 2 ? span.low : span.weight;
  const Split parts = split_for(span.count, {{span.weight, sizeof(W)},
                                             {low, sizeof(W)},
                                             {span.first, sizeof(float)},
                                             {span.second, sizeof(float)},
                                             {span.gradient, sizeof(G)}});
  adamw_kernel<<<grid_for(parts.threads(), kThreads), kThreads, 0, stream>>>(planes, parts, step,
                                                                             scale);
  device::check(cudaGetLastError(), "launching the adamw kernel");
}

// target = round(target + addend). The order of the two shows in a NaN's payload only.
template <class T, class A>
__global__ void __launch_bounds__(kThreads) add_kernel(T* target, const A* addend, Split parts) {
  const std::int64_t thread = thread_index();
  if (thread < parts.vectors) {
    const std::int64_t at = parts.vector_start(thread);
    Vector<T> sum = load(target, at);
    const Vector<A> more = load(addend, at);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      sum.at[i] = narrow<T>(__fadd_rn(widen(sum.at[i]), widen(more.at[i])));
    }
    store(target, at, sum);
  } else if (thread < parts.threads()) {
    const std::int64_t at = parts.single(thread);
    target[at] = narrow<T>(__fadd_rn(widen(target[at]), widen(addend[at])));
  }
}

template <class T, class A>
void launch_add_of(void* target, const void* addend, std::int64_t count, cudaStream_t stream) {
  const Split parts = split_for(count, {{target, sizeof(T)}, {addend, sizeof(A)}});
  add_kernel<<<grid_for(parts.threads(), kThreads), kThreads, 0, stream>>>(
      static_cast<T*>(target), static_cast<const A*>(addend), parts);
  device::check(cudaGetLastError(), "launching the gradient sum kernel");
}

constexpr int kSums = 16;  // of a norm block, one a thread
constexpr int kNormBlocksPerGrid = kThreads / kSums;

// Half a warp a block: thread l has the sum of the elements j with j % 16 == l, in order. A square
// of an fp32 is exact in fp64, so a fused multiply-add rounds as the sum of the product does.
// Sixteen loads are in flight while the chain of additions goes on.
template <class G>
__global__ void __launch_bounds__(kThreads)
    square_sums_kernel(double* partials, const G* gradient, std::int64_t count) {
  constexpr int kAhead = 16;
  const std::int64_t block =
      static_cast<std::int64_t>(blockIdx.x) * kNormBlocksPerGrid + threadIdx.x / kSums;
  const int lane = threadIdx.x % kSums;
  const std::int64_t start = block * kNormBlock;
  // Blocks behind the last have no elements; their threads stay for the exchange below.
  const std::int64_t left = count - start;
  const int length = static_cast<int>(left < 0 ? 0 : left < kNormBlock ? left : kNormBlock);
  double sum = 0;
  int j = lane;
  for (; j + (kAhead - 1) * kSums < length; j += kAhead * kSums) {
    float values[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) values[k] = widen(gradient[start + j + k * kSums]);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const double g = values[k];
      sum = __fma_rn(g, g, sum);
    }
  }
  for (; j < length; j += kSums) {
    const double g = widen(gradient[start + j]);
    sum = __fma_rn(g, g, sum);
  }
#pragma unroll
  for (int width = kSums / 2; width > 0; width /= 2) {
    sum = __dadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, width, kSums));
  }
  if (lane == 0 && length > 0) partials[block] = sum;
}

template <class G>
void launch_square_sums_of(double* partials, const void* gradient, std::int64_t count,
                           cudaStream_t stream) {
  square_sums_kernel<<<grid_for(norm_blocks(count), kNormBlocksPerGrid), kThreads, 0, stream>>>(
      partials, static_cast<const G*>(gradient), count);
  device::check(cudaGetLastError(), "launching the sum of squares kernel");
}

}  // namespace

void launch_adamw(const StateSpan& span, const AdamWStep& step, const StepScale* scale,
                  cudaStream_t stream) {
  const bool wide = span.gradient_type == DType::f32;
  if (span.weight_type == DType::f32) {
    wide ? launch_adamw_of<float, float>(span, step, scale, stream)
         : launch_adamw_of<float, Half>(span, step, scale, stream);
  } else {
    wide ? launch_adamw_of<Half, float>(span, step, scale, stream)
         : launch_adamw_of<Half, Half>(span, step, scale, stream);
  }
}

void launch_add(void* target, DType target_type, const void* addend, DType addend_type,
                std::int64_t count, cudaStream_t stream) {
  const bool wide = addend_type == DType::f32;
  if (target_type == DType::f32) {
    wide ? launch_add_of<float, float>(target, addend, count, stream)
         : launch_add_of<float, Half>(target, addend, count, stream);
  } else {
    wide ? launch_add_of<Half, float>(target, addend, count, stream)
         : launch_add_of<Half, Half>(target, addend, count, stream);
  }
}

void launch_square_sums(double* partials, const void* gradient, DType type, std::int64_t count,
                        cudaStream_t stream) {
  type == DType::f32 ? launch_square_sums_of<float>(partials, gradient, count, stream)
                     : launch_square_sums_of<Half>(partials, gradient, count, stream);
}

}  // namespace ebb::kernels
