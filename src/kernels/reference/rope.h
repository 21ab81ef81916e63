// Rotary positions: each pair (j, j + head_dim / 2) of a head is rotated by its row's angle.
// `table` has head_dim / 2 pairs of cosine and sine for each position; the inverse is the gradient.
#pragma once

#include "kernels/model_ops.h"
#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class T>
void rope(Matrix<T> x, const float* table, const ModelOps::RopeShape& shape) {
  const std::int64_t half = shape.head_dim / 2;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const float* row = table + (shape.start + i % shape.length) * half * 2;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t j = 0; j < half; ++j) {
        T& left = x(i, h * shape.head_dim + j);
        T& right = x(i, h * shape.head_dim + half + j);
        const double cosine = row[2 * j];
        const double sine = shape.inverse ? -row[2 * j + 1] : row[2 * j + 1];
        const double a = load(left), b = load(right);
        store(left, a * cosine - b * sine);
        store(right, b * cosine + a * sine);
      }
    }
  }
}

}  // namespace ebb::kernels::reference
