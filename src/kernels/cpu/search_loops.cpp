#include "kernels/cpu/search_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/search_loops.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// A vector holds some of those that are tried, at most all.
using TriedFloats = hn::CappedTag<float, kTriedAtOnce>;
using TriedVector = hn::Vec<TriedFloats>;

// As the reference rounds.
HWY_INLINE TriedVector level_of(TriedVector value, TriedVector low, TriedVector high) {
  const TriedVector shift = hn::Set(TriedFloats(), 0x1.8p23f);
  return hn::Sub(hn::Add(hn::Min(hn::Max(value, low), high), shift), shift);
}

void sums_of_levels(Group group, Levels levels, const Lanes& inverses, float offset,
                    LevelSums& to) {
  const TriedFloats d;
  const TriedVector low = hn::Set(d, levels.low), high = hn::Set(d, levels.high);
  for (std::size_t c = 0; c < kTriedAtOnce; c += hn::Lanes(d)) {
    const TriedVector inverse = hn::LoadU(d, inverses.data() + c);
    TriedVector q_sum = hn::Zero(d), qq_sum = q_sum, qt_sum = q_sum;
    for (const float x : group) {
      const TriedVector t = hn::Set(d, x + offset);
      const TriedVector q = level_of(hn::Mul(t, inverse), low, high);
      q_sum = hn::Add(q_sum, q);
      qq_sum = hn::Add(qq_sum, hn::Mul(q, q));
      qt_sum = hn::Add(qt_sum, hn::Mul(q, t));
    }
    hn::StoreU(q_sum, d, to.q.data() + c);
    hn::StoreU(qq_sum, d, to.qq.data() + c);
    hn::StoreU(qt_sum, d, to.qt.data() + c);
  }
}

void sums_of_errors(Group group, Levels levels, const Tried& tried, Lanes& to) {
  const TriedFloats d;
  const TriedVector low = hn::Set(d, levels.low), high = hn::Set(d, levels.high);
  for (std::size_t c = 0; c < kTriedAtOnce; c += hn::Lanes(d)) {
    const TriedVector scale = hn::LoadU(d, tried.scales.data() + c);
    const TriedVector offset = hn::LoadU(d, tried.offsets.data() + c);
    const TriedVector inverse = hn::LoadU(d, tried.inverses.data() + c);
    TriedVector sum = hn::Zero(d);
    for (const float number : group) {
      const TriedVector x = hn::Set(d, number);
      const TriedVector q = level_of(hn::Mul(hn::Add(x, offset), inverse), low, high);
      const TriedVector error = hn::Sub(hn::Sub(hn::Mul(scale, q), offset), x);
      sum = hn::Add(sum, hn::Mul(error, error));
    }
    hn::StoreU(sum, d, to.data() + c);
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(sums_of_levels);
HWY_EXPORT(sums_of_errors);

SearchLoops cpu_search_loops() {
  return {[](Group group, Levels levels, const Lanes& inverses, float offset, LevelSums& to) {
            HWY_DYNAMIC_DISPATCH(sums_of_levels)(group, levels, inverses, offset, to);
          },
          [](Group group, Levels levels, const Tried& tried, Lanes& to) {
            HWY_DYNAMIC_DISPATCH(sums_of_errors)(group, levels, tried, to);
          }};
}

}  // namespace ebb::kernels
#endif
