// Rows of a table by index, and the gradient that goes back into them. The table may be a piece of
// the whole, from row `first` on: ids outside of it leave their row of `out` as it is.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class T>
void embed(Matrix<T> out, Matrix<const T> table, std::span<const std::int32_t> ids, double scale,
           std::int64_t first = 0) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const std::int64_t row = ids.data()[i] - first;
    if (row < 0 || row >= table.rows) continue;
    for (std::int64_t j = 0; j < out.cols; ++j) store(out(i, j), load(table(row, j)) * scale);
  }
}

// `sums` is f32 (double in gradient checks): each product and each addition rounds to it, in the
// order of i.
template <class Sum, class T>
void embed_backward(Matrix<Sum> sums, Matrix<const T> dy, std::span<const std::int32_t> ids,
                    double scale, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < dy.rows; ++i) {
    const std::int64_t row = ids.data()[i] - first;
    if (row < 0 || row >= sums.rows) continue;
    for (std::int64_t j = 0; j < dy.cols; ++j) {
      const auto product = static_cast<Sum>(load(dy(i, j)) * scale);
      store(sums(row, j), load(sums(row, j)) + product);
    }
  }
}

}  // namespace ebb::kernels::reference
