// Rows of a table by index, and the gradient that goes back into them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class T>
void embed(Matrix<T> out, Matrix<const T> table, std::span<const std::int32_t> ids) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    for (std::int64_t j = 0; j < out.cols; ++j) out(i, j) = table(ids[i], j);
  }
}

// `sums` is f32 (double in gradient checks): each addition rounds to it, in the order of i.
template <class Sum, class T>
void embed_backward(Matrix<Sum> sums, Matrix<const T> dy, std::span<const std::int32_t> ids) {
  for (std::int64_t i = 0; i < dy.rows; ++i) {
    for (std::int64_t j = 0; j < dy.cols; ++j) {
      store(sums(ids[i], j), load(sums(ids[i], j)) + load(dy(i, j)));
    }
  }
}

}  // namespace ebb::kernels::reference
