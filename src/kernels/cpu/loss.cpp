#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

float row_max(const float* x, std::int64_t cols) {
  const Vector lowest = hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  if (cols < lanes()) {
    float largest = x[0];
    for (std::int64_t j = 1; j < cols; ++j) largest = HWY_MAX(largest, x[j]);
    return largest;
  }
  Vector largest = lowest;
  for (std::int64_t j = 0; j + lanes() <= cols; j += lanes())
    largest = hn::Max(largest, load(x + j));
  return max_lanes(hn::Max(largest, load(x + cols - lanes())));
}

// Vocabularies are long: fp32 sums of 4096 elements at most, then fp64.
double exponential_sum(const float* x, std::int64_t cols, float largest) {
  constexpr std::int64_t block = 4096;
  const Floats d;
  const Vector shift = hn::Set(d, largest);
  double total = 0;
  for (std::int64_t first = 0; first < cols; first += block) {
    Vector sum = hn::Zero(d);
    for_vectors(HWY_MIN(block, cols - first), [&](std::int64_t j, std::int64_t n) EBB_LANES {
      const Vector e = exponential(hn::Sub(load(x + first + j, n), shift));
      const Vector kept = n == lanes() ? e : hn::IfThenElseZero(hn::FirstN(d, n), e);
      sum = hn::Add(sum, kept);
    });
    total += sum_lanes(sum);
  }
  return total;
}

template <class D>
void cross_entropy_row(D* dlogits, float* loss, const float* logits, std::int64_t cols,
                       std::int32_t target, float scale) {
  const Floats d;
  if (target < 0) {
    *loss = 0;
    for_vectors(cols, [&](std::int64_t j, std::int64_t n)
                          EBB_LANES { store(hn::Zero(d), dlogits + j, n); });
    return;
  }
  const float largest = row_max(logits, cols);
  const double log_total = std::log(exponential_sum(logits, cols, largest));
  const double at_target = logits[target];
  *loss = static_cast<float>(largest + log_total - at_target);
  const Vector shift = hn::Set(d, largest), factor = hn::Set(d, scale);
  const Vector log_sum = hn::Set(d, static_cast<float>(log_total));
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector p = exponential(hn::Sub(hn::Sub(load(logits + j, n), shift), log_sum));
    store(hn::Mul(p, factor), dlogits + j, n);
  });
  // p - 1 without losing p's digits where p is close to 1 costs nothing here: do it in double.
  const double p = std::exp(at_target - largest - log_total);
  dlogits[target] = from_float<D>(static_cast<float>((p - 1.0) * scale));
}

void cross_entropy_any_row(Rows dlogits, float* loss, const float* logits, std::int64_t cols,
                           std::int32_t target, float scale) {
  dlogits.type == DType::f32
      ? cross_entropy_row(static_cast<float*>(dlogits.data), loss, logits, cols, target, scale)
      : cross_entropy_row(static_cast<bf16*>(dlogits.data), loss, logits, cols, target, scale);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(cross_entropy_any_row);

void CpuOps::cross_entropy(View dlogits, float* losses, ConstView logits,
                           std::span<const std::int32_t> targets, float scale) {
  for_rows(logits.rows, logits.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(cross_entropy_any_row)
      (rows_of(dlogits, i), losses + i, static_cast<const float*>(rows_of(logits, i).data),
       logits.cols, targets[i], scale);
    }
  });
}

}  // namespace ebb::kernels
#endif
