// Compiled once per instruction set (Highway includes this file again and again); the members at
// the end cut a call into pieces and send them to the best set the processor has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer_gradients.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

#include "kernels/cpu/optimizer_ops.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/pieces.h"
#include "kernels/optimizer_checks.h"
#include "kernels/reference/optimizer_ops.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

#if HWY_NATIVE_FMA && HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// to = round(a + b); `to` is a or b.
template <class To, class A, class B>
void add_arrays(To* to, const A* a, const B* b, std::int64_t count) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) store(hn::Add(load(a + i), load(b + i)), to + i);
  if (const std::int64_t rest = count - i; rest > 0) {
    store(hn::Add(load(a + i, rest), load(b + i, rest)), to + i, rest);
  }
}

void add_gradient_piece(float* sum, const void* gradient, DType type, std::int64_t count) {
  if (type == DType::bf16) {
    add_arrays(sum, sum, static_cast<const bf16*>(gradient), count);
  } else {
    add_arrays(sum, sum, static_cast<const float*>(gradient), count);
  }
}

template <class Gradient>
void add_two_of(float* sum, const Gradient* first, const Gradient* second, std::int64_t count) {
  // From 0 on, as the reference sums: of two -0 the sum is 0.
  const auto add = [](auto a, auto b) {
    return hn::Add(hn::Add(hn::Zero(hn::DFromV<decltype(a)>()), a), b);
  };
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) store(add(load(first + i), load(second + i)), sum + i);
  if (const std::int64_t rest = count - i; rest > 0) {
    store(add(load(first + i, rest), load(second + i, rest)), sum + i, rest);
  }
}

void add_two_gradients_piece(float* sum, const void* first, const void* second, DType type,
                             std::int64_t count) {
  if (type == DType::bf16) {
    add_two_of(sum, static_cast<const bf16*>(first), static_cast<const bf16*>(second), count);
  } else {
    add_two_of(sum, static_cast<const float*>(first), static_cast<const float*>(second), count);
  }
}

template <class Gradient>
void finish_gradient_as(Gradient* gradient, const void* sum, DType sum_type, std::int64_t count) {
  if (sum_type == DType::bf16) {
    add_arrays(gradient, static_cast<const bf16*>(sum), gradient, count);
  } else {
    add_arrays(gradient, static_cast<const float*>(sum), gradient, count);
  }
}

void finish_gradient_piece(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                           std::int64_t count) {
  if (gradient_type == DType::bf16) {
    finish_gradient_as(static_cast<bf16*>(gradient), sum, sum_type, count);
  } else {
    finish_gradient_as(static_cast<float*>(gradient), sum, sum_type, count);
  }
}

using Half = hn::Rebind<std::uint16_t, Floats>;
using Words = hn::RebindToUnsigned<Floats>;

// Reads the sum so far: of two gradients that lie in the planes as they came, or from the halves of
// an fp32 number.
template <bool kTwoGradients>
HWY_INLINE Vector load_planes(const std::uint16_t* high, const std::uint16_t* low) {
  const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(Words(), hn::LoadU(Half(), high)));
  const auto lower = hn::PromoteTo(Words(), hn::LoadU(Half(), low));
  if constexpr (kTwoGradients) {
    const auto first = hn::Add(hn::Zero(Floats()), hn::BitCast(Floats(), upper));
    return hn::Add(first, hn::BitCast(Floats(), hn::ShiftLeft<16>(lower)));
  }
  return hn::BitCast(Floats(), hn::Or(upper, lower));
}

// Halves of the fp32 sum; nothing is rounded until it is finished.
HWY_INLINE void store_planes(Vector value, std::uint16_t* high, std::uint16_t* low) {
  const auto bits = hn::BitCast(Words(), value);
  hn::StoreU(hn::TruncateTo(Half(), hn::ShiftRight<16>(bits)), Half(), high);
  hn::StoreU(hn::TruncateTo(Half(), bits), Half(), low);
}

// Calls body(high, low, gradient) for the vectors of a run, for what is left at its end with
// copies.
template <bool kWritesLow, class Body>
HWY_INLINE void for_planes(const SumPlanes& sum, const bf16* gradient, std::int64_t count,
                           const Body& body) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) body(sum.high + i, sum.low + i, gradient + i);
  if (i == count) return;
  std::uint16_t high[kMostLanes] = {}, low[kMostLanes] = {};
  bf16 last[kMostLanes] = {};
  std::copy_n(sum.high + i, count - i, high);
  std::copy_n(sum.low + i, count - i, low);
  std::copy_n(gradient + i, count - i, last);
  body(high, low, last);
  std::copy_n(high, count - i, sum.high + i);
  if (kWritesLow) std::copy_n(low, count - i, sum.low + i);
}

template <bool kTwoGradients>
void add_to_planes_of(const SumPlanes& sum, const bf16* gradient, std::int64_t count) {
  for_planes<true>(sum, gradient, count,
                   [](std::uint16_t* high, std::uint16_t* low, const bf16* more) EBB_LANES {
                     store_planes(hn::Add(load_planes<kTwoGradients>(high, low), load(more)), high,
                                  low);
                   });
}

void add_to_planes_piece(const SumPlanes& sum, const bf16* gradient, std::int64_t count) {
  sum.two_gradients ? add_to_planes_of<true>(sum, gradient, count)
                    : add_to_planes_of<false>(sum, gradient, count);
}

template <bool kTwoGradients>
void finish_planes_of(const SumPlanes& sum, const bf16* gradient, std::int64_t count) {
  for_planes<false>(sum, gradient, count,
                    [](std::uint16_t* high, const std::uint16_t* low, const bf16* last) EBB_LANES {
                      store(hn::Add(load_planes<kTwoGradients>(high, low), load(last)),
                            reinterpret_cast<bf16*>(high));
                    });
}

void finish_planes_piece(const SumPlanes& sum, const bf16* gradient, std::int64_t count) {
  sum.two_gradients ? finish_planes_of<true>(sum, gradient, count)
                    : finish_planes_of<false>(sum, gradient, count);
}

// The 16 sums of a block lie in groups of lanes. Which element of 16 a lane of a group takes is the
// element type's choice: each sum has its own order either way.
using Doubles = hn::CappedTag<double, 4>;
using Sums = hn::Vec<Doubles>;
constexpr int kSums = 16;

HWY_INLINE std::int64_t group_lanes() { return static_cast<std::int64_t>(hn::Lanes(Doubles())); }

HWY_INLINE Sums widened(const float* from, std::int64_t group) {
  const hn::Rebind<float, Doubles> floats;
  return hn::PromoteTo(Doubles(), hn::LoadU(floats, from + group * group_lanes()));
}
HWY_INLINE std::int64_t element_of(const float*, std::int64_t group, std::int64_t lane) {
  return group * group_lanes() + lane;
}

// Two bf16 are a word, whose halves are floats after a shift or a mask: even elements are one
// group, odd ones the next.
HWY_INLINE Sums widened(const bf16* from, std::int64_t group) {
  const hn::Rebind<float, Doubles> floats;
  const hn::RebindToUnsigned<decltype(floats)> words;
  const bf16* at = from + group / 2 * 2 * group_lanes();
  const auto pairs = hn::LoadU(hn::Repartition<std::uint8_t, decltype(words)>(),
                               reinterpret_cast<const std::uint8_t*>(at));
  const auto both = hn::BitCast(words, pairs);
  const auto bits =
      group % 2 == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(words, 0xffff0000u));
  return hn::PromoteTo(Doubles(), hn::BitCast(floats, bits));
}
HWY_INLINE std::int64_t element_of(const bf16*, std::int64_t group, std::int64_t lane) {
  return group / 2 * 2 * group_lanes() + 2 * lane + group % 2;
}

// A square of an fp32 is exact in fp64, so the fused sum rounds as the sum of the square does.
template <class T>
HWY_INLINE Sums plus_square(Sums sum, const T* from, std::int64_t group) {
  const Sums wide = widened(from, group);
  return hn::MulAdd(wide, wide, sum);
}

// Adds the squares of two runs of `count` elements, a multiple of 16, to their sums: two, so that
// additions need not wait for each other (twice as fast in cache). The hardware does not follow the
// jumps from block to block, so the next two are asked for (from memory 8.7 GB/s without).
template <class T>
void add_squares(double* HWY_RESTRICT sums_a, double* HWY_RESTRICT sums_b, const T* a, const T* b,
                 std::int64_t count) {
  const Doubles d;
  const std::int64_t step = group_lanes();
  for (std::int64_t g = 0; g < kSums / step; g += 4) {
    Sums a0 = hn::LoadU(d, sums_a + g * step), a1 = hn::LoadU(d, sums_a + (g + 1) * step);
    Sums a2 = hn::LoadU(d, sums_a + (g + 2) * step), a3 = hn::LoadU(d, sums_a + (g + 3) * step);
    Sums b0 = hn::LoadU(d, sums_b + g * step), b1 = hn::LoadU(d, sums_b + (g + 1) * step);
    Sums b2 = hn::LoadU(d, sums_b + (g + 2) * step), b3 = hn::LoadU(d, sums_b + (g + 3) * step);
    for (std::int64_t j = 0; j < count; j += kSums) {
      hwy::Prefetch(a + j + 2 * kNormBlock);
      hwy::Prefetch(b + j + 2 * kNormBlock);
      a0 = plus_square(a0, a + j, g);
      a1 = plus_square(a1, a + j, g + 1);
      a2 = plus_square(a2, a + j, g + 2);
      a3 = plus_square(a3, a + j, g + 3);
      b0 = plus_square(b0, b + j, g);
      b1 = plus_square(b1, b + j, g + 1);
      b2 = plus_square(b2, b + j, g + 2);
      b3 = plus_square(b3, b + j, g + 3);
    }
    hn::StoreU(a0, d, sums_a + g * step);
    hn::StoreU(a1, d, sums_a + (g + 1) * step);
    hn::StoreU(a2, d, sums_a + (g + 2) * step);
    hn::StoreU(a3, d, sums_a + (g + 3) * step);
    hn::StoreU(b0, d, sums_b + g * step);
    hn::StoreU(b1, d, sums_b + (g + 1) * step);
    hn::StoreU(b2, d, sums_b + (g + 2) * step);
    hn::StoreU(b3, d, sums_b + (g + 3) * step);
  }
}

// The 16 sums, put in the order of their elements, to one.
template <class T>
double added(const double* sums, const T* type) {
  double ordered[kSums];
  for (std::int64_t i = 0; i < kSums; ++i) {
    ordered[element_of(type, i / group_lanes(), i % group_lanes())] = sums[i];
  }
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) ordered[l] += ordered[l + width];
  }
  return ordered[0];
}

// What is missing to 16 elements is filled with zeros, which change no sum.
template <class T>
double last_square_sum(const T* from, std::int64_t count) {
  double sums[kSums] = {};
  double none[kSums] = {};
  const T zeros[kSums] = {};
  const std::int64_t whole = count / kSums * kSums;
  for (std::int64_t j = 0; j < whole; j += kSums) add_squares(sums, none, from + j, zeros, kSums);
  T some[kSums] = {};
  std::memcpy(some, from + whole, static_cast<std::size_t>(count - whole) * sizeof(T));
  add_squares(sums, none, some, zeros, kSums);
  return added(sums, from);
}

template <class T>
void square_sums_of(double* partials, const T* from, std::int64_t count) {
  const std::int64_t pairs = count / (2 * kNormBlock);
  for (std::int64_t pair = 0; pair < pairs; ++pair, from += 2 * kNormBlock, partials += 2) {
    double sums[2][kSums] = {};
    add_squares(sums[0], sums[1], from, from + kNormBlock, kNormBlock);
    partials[0] = added(sums[0], from);
    partials[1] = added(sums[1], from);
  }
  for (std::int64_t left = count % (2 * kNormBlock); left > 0; left -= kNormBlock) {
    *partials++ = last_square_sum(from, std::min(left, kNormBlock));
    from += kNormBlock;
  }
}

void square_sums_piece(double* partials, const void* gradient, DType type, std::int64_t count) {
  if (type == DType::bf16) {
    square_sums_of(partials, static_cast<const bf16*>(gradient), count);
  } else {
    square_sums_of(partials, static_cast<const float*>(gradient), count);
  }
}

#else  // The reference itself: what follows needs FMA and fp64.

void add_gradient_piece(float* sum, const void* gradient, DType type, std::int64_t count) {
  ReferenceOptimizerOps().add_gradient(sum, gradient, type, count);
}

void add_two_gradients_piece(float* sum, const void* first, const void* second, DType type,
                             std::int64_t count) {
  ReferenceOptimizerOps().add_two_gradients(sum, first, second, type, count);
}

void finish_gradient_piece(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                           std::int64_t count) {
  ReferenceOptimizerOps().finish_gradient(gradient, gradient_type, sum, sum_type, count);
}

void add_to_planes_piece(const SumPlanes& sum, const bf16* gradient, std::int64_t count) {
  ReferenceOptimizerOps().add_to_planes(sum, gradient, count);
}

void finish_planes_piece(const SumPlanes& sum, const bf16* gradient, std::int64_t count) {
  ReferenceOptimizerOps().finish_planes(sum, gradient, count);
}

void square_sums_piece(double* partials, const void* gradient, DType type, std::int64_t count) {
  ReferenceOptimizerOps().square_sums(partials, gradient, type, count);
}

#endif

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {
HWY_EXPORT(add_gradient_piece);
HWY_EXPORT(add_two_gradients_piece);
HWY_EXPORT(finish_gradient_piece);
HWY_EXPORT(add_to_planes_piece);
HWY_EXPORT(finish_planes_piece);
HWY_EXPORT(square_sums_piece);

SumPlanes from(const SumPlanes& sum, std::int64_t start) {
  return {sum.high + start, sum.low + start, sum.two_gradients};
}
}  // namespace

void CpuOptimizerOps::add_gradient(float* sum, const void* gradient, DType gradient_type,
                                   std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(add_gradient_piece)
    (sum + start, offset(gradient, gradient_type, start), gradient_type, length);
  });
}

void CpuOptimizerOps::add_two_gradients(float* sum, const void* first, const void* second,
                                        DType gradient_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(add_two_gradients_piece)
    (sum + start, offset(first, gradient_type, start), offset(second, gradient_type, start),
     gradient_type, length);
  });
}

void CpuOptimizerOps::finish_gradient(void* gradient, DType gradient_type, const void* sum,
                                      DType sum_type, std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  check_float_type(sum_type, "the sum");
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(finish_gradient_piece)
    (offset(gradient, gradient_type, start), gradient_type, offset(sum, sum_type, start), sum_type,
     length);
  });
}

void CpuOptimizerOps::add_to_planes(const SumPlanes& sum, const bf16* gradient,
                                    std::int64_t count) {
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(add_to_planes_piece)(from(sum, start), gradient + start, length);
  });
}

void CpuOptimizerOps::finish_planes(const SumPlanes& sum, const bf16* gradient,
                                    std::int64_t count) {
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(finish_planes_piece)(from(sum, start), gradient + start, length);
  });
}

void CpuOptimizerOps::square_sums(double* partials, const void* gradient, DType type,
                                  std::int64_t count) {
  check_float_type(type, "the gradient");
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(square_sums_piece)
    (partials + start / kNormBlock, offset(gradient, type, start), type, length);
  });
}

// What a piece's sums made is squared while it is in the cache.
void CpuOptimizerOps::finish_parts(std::span<const GradientPart> parts, DType gradient_type,
                                   DType sum_type) {
  check_float_type(gradient_type, "the gradient");
  check_float_type(sum_type, "the sum");
  const auto count_of = [](const GradientPart& part) { return part.count; };
  for_pieces_of(pool_, parts, count_of,
                [&](const GradientPart& part, std::int64_t start, std::int64_t length) {
                  for (std::int64_t i = start; i < start + length; i += kPiece) {
                    const std::int64_t count = std::min(kPiece, start + length - i);
                    void* const gradient = offset(part.gradient, gradient_type, i);
                    if (part.low != nullptr) {
                      HWY_DYNAMIC_DISPATCH(finish_planes_piece)
                      (from(part.planes(), i), static_cast<const bf16*>(part.sum) + i, count);
                    } else if (part.sum != nullptr) {
                      HWY_DYNAMIC_DISPATCH(finish_gradient_piece)
                      (gradient, gradient_type, offset(part.sum, sum_type, i), sum_type, count);
                    }
                    HWY_DYNAMIC_DISPATCH(square_sums_piece)
                    (part.partials + i / kNormBlock, gradient, gradient_type, count);
                  }
                });
}

}  // namespace ebb::kernels
#endif  // HWY_ONCE
