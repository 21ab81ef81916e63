// Cross entropy and its gradient, whole or by pieces of the rows. Compiled once per instruction set
// (Highway includes this file again and again).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/rows.h"
#include "kernels/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// The last vector may overlap the one before, which changes no maximum.
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
      const Vector kept =
          n == lanes() ? e : hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n)), e);
      sum = hn::Add(sum, kept);
    });
    total += sum_lanes(sum);
  }
  return total;
}

// What a piece of a row says of it. Minus infinities alone count as nothing, not as NaN.
void statistic_of(RowStatistic* to, const float* x, std::int64_t cols) {
  const float largest = row_max(x, cols);
  constexpr float lowest = std::numeric_limits<float>::lowest();
  to->largest = largest < lowest ? lowest : largest;  // NaN stays NaN
  to->total = exponential_sum(x, cols, to->largest);
}

template <class D>
void gradient_of(D* dlogits, const float* logits, std::int64_t cols, const RowSums& sums,
                 float scale) {
  const Floats d;
  const Vector shift = hn::Set(d, sums.largest), factor = hn::Set(d, scale);
  const Vector log_sum = hn::Set(d, static_cast<float>(sums.log_total));
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector p = exponential(hn::Sub(hn::Sub(load(logits + j, n), shift), log_sum));
    store(hn::Mul(p, factor), dlogits + j, n);
  });
}

void gradient_of_any(Rows dlogits, const float* logits, std::int64_t cols, const RowSums& sums,
                     float scale) {
  dlogits.type == DType::f32
      ? gradient_of(static_cast<float*>(dlogits.data), logits, cols, sums, scale)
      : gradient_of(static_cast<bf16*>(dlogits.data), logits, cols, sums, scale);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(statistic_of);
HWY_EXPORT(gradient_of_any);

namespace {

const float* row_of(ConstView logits, std::int64_t i) {
  return static_cast<const float*>(rows_of(logits, i).data);
}

// A row without a target (below 0) carries no loss: its statistic is zeros, and its logits are not
// read.
void statistic(RowStatistic* to, const RowPiece& piece, std::int64_t i, std::int32_t target) {
  *to = {};
  if (target < 0) return;
  const float* logits = row_of(piece.logits, i);
  HWY_DYNAMIC_DISPATCH(statistic_of)(to, logits, piece.logits.cols);
  const std::int64_t here = target - piece.first;
  if (here >= 0 && here < piece.logits.cols) to->target = logits[here];
}

// Joins the pieces in their order: the same bits whether all of them are in memory or one at a
// time.
RowSums sums_of(const RowStatistic* first, std::int64_t distance, int pieces) {
  RowSums sums{.largest = first->largest};
  for (int p = 1; p < pieces; ++p)
    sums.largest = std::max(sums.largest, first[p * distance].largest);
  double total = 0;
  for (int p = 0; p < pieces; ++p) {
    const RowStatistic& each = first[p * distance];
    total += each.total * std::exp(static_cast<double>(each.largest) - sums.largest);
  }
  sums.log_total = std::log(total);
  return sums;
}

// In double until the end: largest and target are close to each other where the loss is small.
float loss_of(const RowSums& sums, float at_target) {
  return static_cast<float>(sums.largest + sums.log_total - static_cast<double>(at_target));
}

// `at_target` is the target's logit: dlogits may be logits' memory.
void gradient(View dlogits, const RowPiece& piece, std::int64_t i, std::int32_t target,
              const RowSums& sums, float at_target, float scale) {
  const Rows to = rows_of(dlogits, i);
  const std::int64_t cols = piece.logits.cols;
  if (target < 0) {
    std::memset(to.data, 0, static_cast<std::size_t>(cols * size_of(to.type)));
    return;
  }
  HWY_DYNAMIC_DISPATCH(gradient_of_any)(to, row_of(piece.logits, i), cols, sums, scale);
  const std::int64_t here = target - piece.first;
  if (here < 0 || here >= cols) return;
  // p - 1 without losing p's digits where p is close to 1 costs nothing here: do it in double.
  const double p = std::exp(static_cast<double>(at_target) - sums.largest - sums.log_total);
  const auto value = static_cast<float>((p - 1.0) * scale);
  if (to.type == DType::f32) {
    static_cast<float*>(to.data)[here] = value;
  } else {
    static_cast<bf16*>(to.data)[here] = to_bf16(value);
  }
}

}  // namespace

void CpuOps::cross_entropy(const Pieces& dlogits, float* losses, const ConstPieces& logits,
                           std::span<const std::int32_t> targets, float scale) {
  const int pieces = logits.count();
  const std::int64_t columns = logits.first.cols;
  const auto piece = [&](int p) { return RowPiece{piece_of(logits, p), p * columns}; };
  for_rows(logits.first.rows, logits.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int32_t target = targets.data()[i];
      // All statistics of a row before its first gradient, which may overwrite logits.
      RowStatistic each[kMostPieces];
      for (int p = 0; p < pieces; ++p) statistic(each + p, piece(p), i, target);
      const RowSums sums = target < 0 ? RowSums{} : sums_of(each, 1, pieces);
      const float at_target = target < 0 ? 0 : each[target / columns].target;
      losses[i] = target < 0 ? 0 : loss_of(sums, at_target);
      for (int p = 0; p < pieces; ++p) {
        gradient(piece_of(dlogits, p), piece(p), i, target, sums, at_target, scale);
      }
    }
  });
}

void CpuOps::row_statistics(RowStatistic* to, const RowPiece& piece,
                            std::span<const std::int32_t> targets, DType) {
  for_rows(piece.logits.rows, piece.logits.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) statistic(to + i, piece, i, targets.data()[i]);
  });
}

void CpuOps::row_losses(float* losses, const RowStatistics& statistics,
                        std::span<const std::int32_t> targets, DType) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const RowStatistic* first = statistics.first + i;
    losses[i] =
        targets.data()[i] < 0
            ? 0
            : loss_of(sums_of(first, statistics.distance, statistics.pieces),
                      first[targets.data()[i] / statistics.columns * statistics.distance].target);
  }
}

void CpuOps::row_gradients(View dlogits, const RowPiece& piece, const RowStatistics& statistics,
                           std::span<const std::int32_t> targets, float scale) {
  for_rows(piece.logits.rows, piece.logits.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const RowStatistic* row = statistics.first + i;
      const std::int32_t target = targets.data()[i];
      const RowSums sums =
          target < 0 ? RowSums{} : sums_of(row, statistics.distance, statistics.pieces);
      const float at_target =
          target < 0 ? 0 : row[target / statistics.columns * statistics.distance].target;
      gradient(dlogits, piece, i, target, sums, at_target, scale);
    }
  });
}

}  // namespace ebb::kernels
#endif
