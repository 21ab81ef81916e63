// Cross entropy with its gradient, whole or by pieces of the rows, and sums of losses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/model_ops.h"
#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

// RowStatistic, without a rounding of doubles for gradient checks.
struct DoubleStatistic {
  double total = 0, largest = 0, target = 0;
};

// RowStatistics, of either kind of statistic.
template <class Statistic>
struct StatisticsOfRows {
  const Statistic* first;
  std::int64_t distance;
  int pieces;
  std::int64_t columns;

  StatisticsOfRows(const Statistic* at, std::int64_t rows, int count, std::int64_t cols)
      : first(at), distance(rows), pieces(count), columns(cols) {}
  explicit StatisticsOfRows(const RowStatistics& s)
      : StatisticsOfRows(s.first, s.distance, s.pieces, s.columns) {}
  const Statistic& operator()(std::int64_t row, std::int64_t piece) const {
    return first[piece * distance + row];
  }
  double largest(std::int64_t row) const {
    double found = (*this)(row, 0).largest;
    for (int p = 1; p < pieces; ++p) found = std::max<double>(found, (*this)(row, p).largest);
    return found;
  }
  // The logarithm of the row's sum of exponentials: pieces in their order.
  double log_sum(std::int64_t row) const {
    const double shift = largest(row);
    double total = 0;
    for (int p = 0; p < pieces; ++p) {
      total += (*this)(row, p).total * std::exp((*this)(row, p).largest - shift);
    }
    return shift + std::log(total);
  }
};
StatisticsOfRows(const RowStatistics&)->StatisticsOfRows<RowStatistic>;

template <class Statistic, class T>
void row_statistics(Statistic* to, Matrix<const T> logits, std::span<const std::int32_t> targets,
                    std::int64_t first) {
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    // A row without a target is not looked at: its logits may be anything.
    to[i] = {};
    if (targets.data()[i] < 0) continue;
    // Finite, so that logits of minus infinity count as nothing and not as NaN.
    double largest = std::numeric_limits<T>::lowest();
    for (std::int64_t j = 0; j < logits.cols; ++j) largest = std::max(largest, load(logits(i, j)));
    double total = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) total += std::exp(load(logits(i, j)) - largest);
    to[i].total = total;
    to[i].largest = static_cast<T>(largest);
    const std::int64_t target = targets.data()[i] - first;
    if (target >= 0 && target < logits.cols) to[i].target = logits(i, target);
  }
}

template <class Statistic, class T>
void row_losses(T* losses, const StatisticsOfRows<Statistic>& statistics,
                std::span<const std::int32_t> targets) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(targets.size()); ++i) {
    losses[i] = targets.data()[i] < 0
                    ? T{0}
                    : static_cast<T>(statistics.log_sum(i) -
                                     statistics(i, targets.data()[i] / statistics.columns).target);
  }
}

// Each logit is read for the last time before its dlogit is written: they may share memory.
template <class D, class T, class Statistic>
void row_gradients(Matrix<D> dlogits, Matrix<const T> logits, std::int64_t first,
                   const StatisticsOfRows<Statistic>& statistics,
                   std::span<const std::int32_t> targets, double scale) {
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const double log_sum = targets.data()[i] < 0 ? 0 : statistics.log_sum(i);
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double p = targets.data()[i] < 0 ? 0 : std::exp(load(logits(i, j)) - log_sum);
      store(dlogits(i, j), (p - (first + j == targets.data()[i] ? 1.0 : 0.0)) * scale);
    }
  }
}

// Losses and gradients of rows that are one piece.
template <class D, class T>
void cross_entropy(Matrix<D> dlogits, T* losses, Matrix<const T> logits,
                   std::span<const std::int32_t> targets, double scale) {
  std::vector<DoubleStatistic> each(targets.size());
  row_statistics(each.data(), logits, targets, 0);
  const StatisticsOfRows statistics(each.data(), logits.rows, 1, logits.cols);
  row_losses(losses, statistics, targets);
  row_gradients(dlogits, logits, 0, statistics, targets, scale);
}

inline double sum(const float* values, std::int64_t count) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += values[i];
  return total;
}

}  // namespace ebb::kernels::reference
