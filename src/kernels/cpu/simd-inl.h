// Vectors of fp32 lanes over fp32 or bf16 memory, compiled once per instruction set: included
// between HWY_BEFORE_NAMESPACE regions by each kernel file after foreach_target.h.
#if defined(EBB_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_CPU_SIMD_INL_H_
#undef EBB_KERNELS_CPU_SIMD_INL_H_
#else
#define EBB_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
inline constexpr std::size_t kMostLanes = hn::MaxLanes(Floats());

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

HWY_INLINE Vector load(const float* from) { return hn::LoadU(Floats(), from); }

HWY_INLINE Vector load(const bf16* from) {
  const hn::RebindToUnsigned<Floats> wide;
  const hn::Rebind<std::uint16_t, Floats> half;
  const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

HWY_INLINE void store(Vector value, float* to) { hn::StoreU(value, Floats(), to); }

// To nearest even in integers, as to_bf16 does: Highway's own demotion truncates.
HWY_INLINE void store(Vector value, bf16* to) {
  const hn::RebindToUnsigned<Floats> wide;
  const hn::RebindToSigned<Floats> wide_signed;
  const hn::Rebind<std::uint16_t, Floats> half;
  const auto bits = hn::BitCast(wide, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(wide, 0x00400000u));
  const auto kept = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(value)), quiet, rounded);
  const auto high = hn::BitCast(wide_signed, hn::ShiftRight<16>(kept));
  hn::StoreU(hn::DemoteTo(half, high), half, reinterpret_cast<std::uint16_t*>(to));
}

// The first `count` lanes, zeros in the others.
template <class T>
HWY_INLINE Vector load(const T* from, std::int64_t count) {
  if (HWY_LIKELY(count >= lanes())) return load(from);
  HWY_ALIGN T part[kMostLanes] = {};
  std::memcpy(part, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(part);
}

template <class T>
HWY_INLINE void store(Vector value, T* to, std::int64_t count) {
  if (HWY_LIKELY(count >= lanes())) return store(value, to);
  HWY_ALIGN T part[kMostLanes];
  store(value, part);
  std::memcpy(to, part, static_cast<std::size_t>(count) * sizeof(T));
}

// For the bodies of for_vectors: without it GCC calls them once a vector, and each call loads its
// constants again.
#ifndef EBB_LANES
#define EBB_LANES HWY_ATTR __attribute__((always_inline))
#endif

// Calls body(j, n) for j = 0, lanes, ...: n is `lanes` in all calls but perhaps the last.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  const std::int64_t step = lanes();
  std::int64_t j = 0;
  for (; j + step <= count; j += step) body(j, step);
  if (j < count) body(j, count - j);
}

HWY_INLINE float sum_lanes(Vector v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }
HWY_INLINE float max_lanes(Vector v) { return hn::GetLane(hn::MaxOfLanes(Floats(), v)); }

// e^x to 2 units in the last place, 0 below -87 and e^88 above 88; NaN stays NaN. (Highway's own
// is slower, makes 0 of NaN, which would hide a broken run, and is undefined above 104.)
HWY_INLINE Vector exponential(Vector x) {
  const Floats d;
  const hn::RebindToSigned<Floats> integers;
  const Vector lowest = hn::Set(d, -87.0f);
  const Vector inside = hn::Min(hn::Max(x, lowest), hn::Set(d, 88.0f));
  // x = n log(2) + r with |r| <= log(2) / 2; log(2) in two parts, the first with spare low bits.
  const Vector n = hn::Round(hn::Mul(inside, hn::Set(d, 1.44269504f)));
  Vector r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), inside);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // e^r = 1 + r + r^2 q(r), with q through Chebyshev's points.
  Vector q = hn::Set(d, 0.00139262508f);
  q = hn::MulAdd(q, r, hn::Set(d, 0.00836323288f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.0416665542f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.166665767f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  const Vector e = hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::ConvertTo(integers, n));
  const Vector scaled = hn::BitCast(d, hn::Add(hn::BitCast(integers, e), power));
  const Vector kept = hn::IfThenElseZero(hn::Ge(x, lowest), scaled);
  return hn::IfThenElse(hn::IsNaN(x), x, kept);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_CPU_SIMD_INL_H_
