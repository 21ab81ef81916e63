// Compiled once per instruction set (Highway includes this file again and again); the class at the
// end cuts a call into pieces and sends them to the best set the processor has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer_ops.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/highway.h"

#include "kernels/cpu/optimizer_ops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/optimizer_checks.h"
#include "kernels/reference/optimizer_ops.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {  // other files have their own load() and store() in this namespace

#if HWY_NATIVE_FMA && HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
constexpr std::size_t kMaxLanes = hn::MaxLanes(Floats());

// Four fp64 lanes at most: with four accumulators, the 16 sums of a block in one pass.
using Doubles = hn::CappedTag<double, 4>;

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}

// The high half of a float, as 32 bits.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> load_high(D, const bf16* from) {
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
  return hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16* from) {
  return hn::BitCast(d, load_high(d, from));
}

// The low 16 bits of every lane.
template <class D, class To, class Words>
HWY_INLINE void store_halves(D, Words words, To* to) {
  const hn::Rebind<std::uint16_t, D> halves;
  hn::StoreU(hn::TruncateTo(halves, words), halves, reinterpret_cast<std::uint16_t*>(to));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}

// To nearest even, as to_bf16: Highway's own conversion cuts off instead.
template <class D>
HWY_INLINE void store(D d, hn::Vec<D> value, bf16* to) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, value);
  const auto cut = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(cut, hn::Set(words, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu))));
  const auto quiet = hn::Or(cut, hn::Set(words, 0x40u));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  store_halves(d, hn::IfThenElse(is_nan, quiet, rounded), to);
}

template <class D>
HWY_INLINE hn::Vec<D> load_master(D d, const float* weight, const std::int16_t*) {
  return hn::LoadU(d, weight);
}

template <class D>
HWY_INLINE hn::Vec<D> load_master(D d, const bf16* weight, const std::int16_t* low) {
  const hn::RebindToUnsigned<D> words;
  const hn::RebindToSigned<D> signed_words;
  const auto rest = hn::PromoteTo(signed_words, hn::LoadU(hn::Rebind<std::int16_t, D>(), low));
  return hn::BitCast(d, hn::Add(load_high(d, weight), hn::BitCast(words, rest)));
}

template <class D>
HWY_INLINE void store_master(D d, hn::Vec<D> master, float* weight, std::int16_t*) {
  hn::StoreU(master, d, weight);
}

template <class D>
HWY_INLINE void store_master(D d, hn::Vec<D> master, bf16* weight, std::int16_t* low) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, master);
  store_halves(d, hn::ShiftRight<16>(hn::Add(bits, hn::Set(words, 0x8000u))), weight);
  store_halves(d, bits, low);
}

template <class Weight, class Gradient>
HWY_INLINE void adamw_vector(Weight* weight, std::int16_t* low, float* first, float* second,
                             const Gradient* gradient, const AdamWStep& step, float scale) {
  const Floats d;
  const auto g = hn::Mul(load(d, gradient), hn::Set(d, scale));
  const auto m = hn::MulAdd(hn::Set(d, step.beta1), hn::LoadU(d, first),
                            hn::Mul(hn::Set(d, step.one_minus_beta1), g));
  const auto v = hn::MulAdd(hn::Set(d, step.beta2), hn::LoadU(d, second),
                            hn::Mul(hn::Set(d, step.one_minus_beta2), hn::Mul(g, g)));
  const auto divisor =
      hn::MulAdd(hn::Sqrt(v), hn::Set(d, step.inverse_root_correction2), hn::Set(d, step.epsilon));
  const auto decayed = hn::Mul(load_master(d, weight, low), hn::Set(d, step.decay_factor));
  const auto p = hn::NegMulAdd(hn::Set(d, step.step_size), hn::Div(m, divisor), decayed);
  store_master(d, p, weight, low);
  hn::StoreU(m, d, first);
  hn::StoreU(v, d, second);
}

template <class T>
HWY_INLINE void copy(T* to, const T* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

// `step` comes by value: through a reference it could alias the planes, and its vectors would be
// made anew for every store.
template <class Weight, class Gradient>
void adamw_planes(const StateSpan& span, const AdamWStep step, float scale) {
  auto* weight = static_cast<Weight*>(span.weight);
  auto* gradient = static_cast<const Gradient*>(span.gradient);
  std::int16_t* low = span.low;
  float* first = span.first;
  float* second = span.second;
  constexpr bool kSplit = std::is_same_v<Weight, bf16>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  const std::int64_t count = span.count;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    adamw_vector(weight + i, kSplit ? low + i : nullptr, first + i, second + i, gradient + i, step,
                 scale);
  }
  const std::int64_t rest = count - i;
  if (rest == 0) return;
  Weight some_weight[kMaxLanes] = {};
  std::int16_t some_low[kMaxLanes] = {};
  float some_first[kMaxLanes] = {};
  float some_second[kMaxLanes] = {};
  Gradient some_gradient[kMaxLanes] = {};
  copy(some_weight, weight + i, rest);
  if (kSplit) copy(some_low, low + i, rest);
  copy(some_first, first + i, rest);
  copy(some_second, second + i, rest);
  copy(some_gradient, gradient + i, rest);
  adamw_vector(some_weight, some_low, some_first, some_second, some_gradient, step, scale);
  copy(weight + i, some_weight, rest);
  if (kSplit) copy(low + i, some_low, rest);
  copy(first + i, some_first, rest);
  copy(second + i, some_second, rest);
}

void adamw_piece(const StateSpan& span, const AdamWStep& step, float scale) {
  const bool short_gradient = span.gradient_type == DType::bf16;
  if (span.weight_type == DType::bf16) {
    short_gradient ? adamw_planes<bf16, bf16>(span, step, scale)
                   : adamw_planes<bf16, float>(span, step, scale);
  } else {
    short_gradient ? adamw_planes<float, bf16>(span, step, scale)
                   : adamw_planes<float, float>(span, step, scale);
  }
}

// to = round(a + b); `to` is a or b.
template <class To, class A, class B>
void add_arrays(To* to, const A* a, const B* b, std::int64_t count) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store(d, hn::Add(load(d, a + i), load(d, b + i)), to + i);
  }
  const std::int64_t rest = count - i;
  if (rest == 0) return;
  A some_a[kMaxLanes] = {};
  B some_b[kMaxLanes] = {};
  To some_sums[kMaxLanes];
  copy(some_a, a + i, rest);
  copy(some_b, b + i, rest);
  store(d, hn::Add(load(d, some_a), load(d, some_b)), some_sums);
  copy(to + i, some_sums, rest);
}

void add_gradient_piece(float* sum, const void* gradient, DType type, std::int64_t count) {
  if (type == DType::bf16) {
    add_arrays(sum, sum, static_cast<const bf16*>(gradient), count);
  } else {
    add_arrays(sum, sum, static_cast<const float*>(gradient), count);
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

template <class T>
HWY_INLINE hn::Vec<Doubles> squares(const T* from) {
  const Doubles d;
  const auto wide = hn::PromoteTo(d, load(hn::Rebind<float, Doubles>(), from));
  return hn::Mul(wide, wide);  // exact: 24 bits times 24 bits
}

// `count` is a multiple of 16. Adds to the 16 sums.
template <class T>
void add_squares(double* HWY_RESTRICT sums, const T* from, std::int64_t count) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t first = 0; first < 16; first += 4 * lanes) {
    double* at = sums + first;
    auto a = hn::LoadU(d, at);
    auto b = hn::LoadU(d, at + lanes);
    auto c = hn::LoadU(d, at + 2 * lanes);
    auto e = hn::LoadU(d, at + 3 * lanes);
    for (std::int64_t j = first; j < count; j += 16) {
      a = hn::Add(a, squares(from + j));
      b = hn::Add(b, squares(from + j + lanes));
      c = hn::Add(c, squares(from + j + 2 * lanes));
      e = hn::Add(e, squares(from + j + 3 * lanes));
    }
    hn::StoreU(a, d, at);
    hn::StoreU(b, d, at + lanes);
    hn::StoreU(c, d, at + 2 * lanes);
    hn::StoreU(e, d, at + 3 * lanes);
  }
}

// A block's partial. What is missing to 16 elements is filled with zeros, which change no sum.
template <class T>
double square_sum(const T* from, std::int64_t count) {
  double sums[16] = {};
  const std::int64_t whole = count / 16 * 16;
  add_squares(sums, from, whole);
  if (count > whole) {
    T some[16] = {};
    copy(some, from + whole, count - whole);
    add_squares(sums, some, 16);
  }
  for (int width = 8; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) sums[l] += sums[l + width];
  }
  return sums[0];
}

void square_sums_piece(double* partials, const void* gradient, DType type, std::int64_t count) {
  for (std::int64_t start = 0; start < count; start += kNormBlock) {
    const std::int64_t length = std::min(kNormBlock, count - start);
    partials[start / kNormBlock] =
        type == DType::bf16 ? square_sum(static_cast<const bf16*>(gradient) + start, length)
                            : square_sum(static_cast<const float*>(gradient) + start, length);
  }
}

#else  // Highway's MulAdd would round twice here, or its division is approximate.

void adamw_piece(const StateSpan& span, const AdamWStep& step, float scale) {
  const StepScale step_scale{scale, 1};
  ReferenceOptimizerOps().adamw(span, step, &step_scale);
}

void add_gradient_piece(float* sum, const void* gradient, DType type, std::int64_t count) {
  ReferenceOptimizerOps().add_gradient(sum, gradient, type, count);
}

void finish_gradient_piece(void* gradient, DType gradient_type, const void* sum, DType sum_type,
                           std::int64_t count) {
  ReferenceOptimizerOps().finish_gradient(gradient, gradient_type, sum, sum_type, count);
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

HWY_EXPORT(adamw_piece);
HWY_EXPORT(add_gradient_piece);
HWY_EXPORT(finish_gradient_piece);
HWY_EXPORT(square_sums_piece);

// Elements a piece: enough to make handing it out free, few enough to balance the threads. A
// multiple of the norm's blocks, so that no block is cut.
constexpr std::int64_t kPiece = 8 * kNormBlock;

const void* offset(const void* data, DType type, std::int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * size_of(type);
}
void* offset(void* data, DType type, std::int64_t elements) {
  return static_cast<std::byte*>(data) + elements * size_of(type);
}

template <class Body>  // body(first element, number of elements)
void for_pieces(ThreadPool& pool, std::int64_t count, Body&& body) {
  pool.parallel_for((count + kPiece - 1) / kPiece, [&](std::int64_t piece, int) {
    const std::int64_t start = piece * kPiece;
    body(start, std::min(kPiece, count - start));
  });
}

}  // namespace

void CpuOptimizerOps::adamw(const StateSpan& span, const AdamWStep& step, const StepScale* scale) {
  check_span(span);
  if (scale->apply == 0) return;
  const float gradient_scale = scale->gradient_scale;
  for_pieces(pool_, span.count, [&](std::int64_t start, std::int64_t count) {
    StateSpan piece = span;
    piece.weight = offset(span.weight, span.weight_type, start);
    if (span.low != nullptr) piece.low = span.low + start;
    piece.first = span.first + start;
    piece.second = span.second + start;
    piece.gradient = offset(span.gradient, span.gradient_type, start);
    piece.count = count;
    HWY_DYNAMIC_DISPATCH(adamw_piece)(piece, step, gradient_scale);
  });
}

void CpuOptimizerOps::add_gradient(float* sum, const void* gradient, DType gradient_type,
                                   std::int64_t count) {
  check_float_type(gradient_type, "the gradient");
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(add_gradient_piece)
    (sum + start, offset(gradient, gradient_type, start), gradient_type, length);
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

void CpuOptimizerOps::square_sums(double* partials, const void* gradient, DType type,
                                  std::int64_t count) {
  check_float_type(type, "the gradient");
  for_pieces(pool_, count, [&](std::int64_t start, std::int64_t length) {
    HWY_DYNAMIC_DISPATCH(square_sums_piece)
    (partials + start / kNormBlock, offset(gradient, type, start), type, length);
  });
}

}  // namespace ebb::kernels
#endif  // HWY_ONCE
