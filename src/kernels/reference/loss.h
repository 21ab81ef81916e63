// Cross entropy with its gradient, and sums of losses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

// Each logit is read for the last time before its dlogit is written: they may share memory.
template <class D, class T>
void cross_entropy(Matrix<D> dlogits, T* losses, Matrix<const T> logits,
                   std::span<const std::int32_t> targets, double scale) {
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    if (targets[i] < 0) {
      losses[i] = 0;
      for (std::int64_t j = 0; j < logits.cols; ++j) store(dlogits(i, j), 0.0);
      continue;
    }
    double largest = load(logits(i, 0));
    for (std::int64_t j = 1; j < logits.cols; ++j) largest = std::max(largest, load(logits(i, j)));
    double total = 0;
    for (std::int64_t j = 0; j < logits.cols; ++j) total += std::exp(load(logits(i, j)) - largest);
    const double log_sum = largest + std::log(total);
    losses[i] = static_cast<T>(log_sum - load(logits(i, targets[i])));
    for (std::int64_t j = 0; j < logits.cols; ++j) {
      const double p = std::exp(load(logits(i, j)) - log_sum);
      store(dlogits(i, j), (p - (j == targets[i] ? 1.0 : 0.0)) * scale);
    }
  }
}

inline double sum(const float* values, std::int64_t count) {
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += values[i];
  return total;
}

}  // namespace ebb::kernels::reference
