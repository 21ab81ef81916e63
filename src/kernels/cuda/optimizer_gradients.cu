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

// sum = (0 + first) + second: the zero makes of a negative one what a sum from zero on has.
template <class A>
__global__ void __launch_bounds__(kThreads)
    add_two_kernel(float* sum, const A* first, const A* second, Split parts) {
  const auto add = [](A a, A b) { return __fadd_rn(__fadd_rn(0.0f, widen(a)), widen(b)); };
  const std::int64_t thread = thread_index();
  if (thread < parts.vectors) {
    const std::int64_t at = parts.vector_start(thread);
    const Vector<A> a = load(first, at);
    const Vector<A> b = load(second, at);
    Vector<float> both;
#pragma unroll
    for (int i = 0; i < kVector; ++i) both.at[i] = add(a.at[i], b.at[i]);
    store(sum, at, both);
  } else if (thread < parts.threads()) {
    const std::int64_t at = parts.single(thread);
    sum[at] = add(first[at], second[at]);
  }
}

template <class A>
void launch_add_two_of(float* sum, const void* first, const void* second, std::int64_t count,
                       cudaStream_t stream) {
  const Split parts =
      split_for(count, {{sum, sizeof(float)}, {first, sizeof(A)}, {second, sizeof(A)}});
  add_two_kernel<<<grid_for(parts.threads(), kThreads), kThreads, 0, stream>>>(
      sum, static_cast<const A*>(first), static_cast<const A*>(second), parts);
  device::check(cudaGetLastError(), "launching the kernel of the first gradient sum");
}

template <class T, class A>
void launch_add_of(void* target, const void* addend, std::int64_t count, cudaStream_t stream) {
  const Split parts = split_for(count, {{target, sizeof(T)}, {addend, sizeof(A)}});
  add_kernel<<<grid_for(parts.threads(), kThreads), kThreads, 0, stream>>>(
      static_cast<T*>(target), static_cast<const A*>(addend), parts);
  device::check(cudaGetLastError(), "launching the gradient sum kernel");
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

void launch_add_two(float* sum, const void* first, const void* second, DType type,
                    std::int64_t count, cudaStream_t stream) {
  type == DType::f32 ? launch_add_two_of<float>(sum, first, second, count, stream)
                     : launch_add_two_of<Half>(sum, first, second, count, stream);
}

}  // namespace ebb::kernels
