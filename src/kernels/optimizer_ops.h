// The arithmetic of the optimizer, on borrowed memory: gradient sums, norms and updates. The
// numerics here are a promise: bit-identical on every instruction set with FMA, at any thread
// count, on any device. reference/ is the specification; every operation below is IEEE fp32 in the
// written order.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/update.h"

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

// A sum of bf16 gradients in two planes of 16 bits. The first two gradients wait there as they
// came; with the third the upper and the lower halves of the fp32 sum take their place, and with
// the last the finished gradient takes that of the upper ones. So a second gradient costs no pass
// over memory, and nothing is held beside what it replaces.
struct SumPlanes {
  std::uint16_t* high = nullptr;
  std::uint16_t* low = nullptr;
  bool two_gradients = false;  // they are the first two; else halves
};

// A run of one tensor's gradient that starts at a norm block's first element. `gradient` becomes
// what is finished.
struct GradientPart {
  void* gradient = nullptr;
  const void* sum = nullptr;   // what is added to it; null: the gradient is whole already
  double* partials = nullptr;  // norm_blocks(count) sums of squares
  std::int64_t count = 0;
  // Where it is there, `gradient` and this are the planes of a sum, and `sum` is the last gradient.
  const std::uint16_t* low = nullptr;
  bool two_gradients = false;  // as in SumPlanes

  SumPlanes planes() const {  // whose lower one is only read
    return {static_cast<std::uint16_t*>(gradient), const_cast<std::uint16_t*>(low), two_gradients};
  }
};

// A span and the step it takes: of one call, tensors may differ in decay, rule and format.
struct SpanUpdate {
  StateSpan span;
  Step step;
};

class OptimizerOps {
 public:
  virtual ~OptimizerOps() = default;

  // The rule's step on every parameter of the spans (update.h): master and moments are read,
  // updated and stored again. Nothing is touched when scale->apply is 0, or when any of them is
  // refused. No two spans share memory, and they may be updated at once: many small tensors take
  // what one large one does.
  virtual void update_spans(std::span<const SpanUpdate> updates, const StepScale* scale) = 0;
  void update(const StateSpan& span, const Step& step, const StepScale* scale) {
    const SpanUpdate one{span, step};
    update_spans({&one, 1}, scale);
  }

  // sum += gradient. Types: sum f32 with gradient f32 or bf16.
  virtual void add_gradient(float* sum, const void* gradient, DType gradient_type,
                            std::int64_t count) = 0;
  // sum = (0 + first) + second, the sum of the first two gradients. Types: as add_gradient().
  virtual void add_two_gradients(float* sum, const void* first, const void* second,
                                 DType gradient_type, std::int64_t count) = 0;
  // gradient = round(sum + gradient), rounded once to the gradient's type.
  virtual void finish_gradient(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                               std::int64_t count) = 0;
  // The same with a sum in planes: sum += gradient, and where two gradients wait
  // sum = ((0 + first) + second) + gradient; halves of it, or the whole rounded once to bf16 in the
  // upper plane, while the lower one is only read. Sums in planes are the CPU's alone.
  virtual void add_to_planes(const SumPlanes& sum, const bf16* gradient, std::int64_t count);
  virtual void finish_planes(const SumPlanes& sum, const bf16* gradient, std::int64_t count);

  // partials[i] = the sum of squares of block i of the `count` elements at `gradient`, which starts
  // at a block's first element. Within a block, 16 fp64 sums (element j goes to sum j % 16, in
  // order) are added pairwise: s[l] += s[l + 8], then + 4, + 2, + 1.
  virtual void square_sums(double* partials, const void* gradient, DType type,
                           std::int64_t count) = 0;

  // finish_gradient, where there is a sum, and square_sums for every part. An implementation may do
  // all of them in one pass; no two parts share memory.
  virtual void finish_parts(std::span<const GradientPart> parts, DType gradient_type,
                            DType sum_type);
};

}  // namespace ebb::kernels
