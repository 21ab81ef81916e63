#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/optimizer_vectors.cuh"

namespace ebb::kernels {
namespace {

using namespace cuda_optimizer;

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
