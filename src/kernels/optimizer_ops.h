// The arithmetic of the optimizer, on borrowed memory: gradient sums, norms and updates. The
// numerics here are a promise: bit-identical on every instruction set with FMA, at any thread
// count, on any device. reference/ is the specification; every operation below is IEEE fp32 in the
// written order.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/device.h"

namespace ebb::kernels {

// Squares are summed in fp64 over blocks of this many elements of one tensor, counted from the
// tensor's start: never over chunks, threads or tiers.
inline constexpr std::int64_t kNormBlock = 4096;

constexpr std::int64_t norm_blocks(std::int64_t count) {
  return (count + kNormBlock - 1) / kNormBlock;
}

// What the norm decided for a step; every update reads it from the memory of its own device.
struct StepScale {
  float gradient_scale = 1.0f;  // the clip factor
  std::int32_t apply = 1;       // 0: the norm was not finite; updates leave everything untouched
};

// The numbers of one AdamW step, made in double and rounded once (optim::adamw_step).
struct AdamWStep {
  float beta1 = 0.9f;
  float one_minus_beta1 = 0.1f;
  float beta2 = 0.999f;
  float one_minus_beta2 = 0.001f;
  float inverse_root_correction2 = 1.0f;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 1e-8f;
  float step_size = 1e-3f;    // learning rate / (1 - beta1^t)
  float decay_factor = 1.0f;  // 1 - learning rate * weight decay; 1 where nothing decays
};

// `count` parameters in a row with all their planes. With bf16 weights the master is split: weight
// is the high half (rounded half up), low the signed 16-bit rest. With f32 weights, low is null.
struct StateSpan {
  void* weight = nullptr;
  DType weight_type = DType::bf16;
  std::int16_t* low = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  const void* gradient = nullptr;
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;
};

class OptimizerOps {
 public:
  virtual ~OptimizerOps() = default;

  // Master p from its halves; g = gradient * gradient_scale;
  //   m = fma(beta1, m, one_minus_beta1 * g)
  //   v = fma(beta2, v, one_minus_beta2 * (g * g))
  //   d = fma(sqrt(v), inverse_root_correction2, epsilon)
  //   p = fma(-step_size, m / d, p * decay_factor)
  // and p is split again. Nothing is touched when scale->apply is 0.
  virtual void adamw(const StateSpan& span, const AdamWStep& step, const StepScale* scale) = 0;

  // sum += gradient. Types: sum f32 with gradient f32 or bf16.
  virtual void add_gradient(float* sum, const void* gradient, DType gradient_type,
                            std::int64_t count) = 0;
  // gradient = round(sum + gradient), rounded once to the gradient's type.
  virtual void finish_gradient(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                               std::int64_t count) = 0;

  // partials[i] = the sum of squares of block i of the `count` elements at `gradient`, which starts
  // at a block's first element. Within a block, 16 fp64 sums (element j goes to sum j % 16, in
  // order) are added pairwise: s[l] += s[l + 8], then + 4, + 2, + 1.
  virtual void square_sums(double* partials, const void* gradient, DType type,
                           std::int64_t count) = 0;

  // The stream that calls are made on, for implementations that queue on one.
  virtual void bind_stream(device::Stream&) {}
};

}  // namespace ebb::kernels
