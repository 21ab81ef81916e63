// Matrix products, sums of columns, and their counterpart.
#pragma once

#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class C>
struct MatmulExtras {
  bool transpose_a = false;
  bool transpose_b = false;
  const C* bias = nullptr;
  const C* addend = nullptr;  // c's stride
};

// c = a * b + bias + addend, summed in double over the depth in order and rounded once.
template <class C, class T>
void matmul(Matrix<C> c, Matrix<const T> a, Matrix<const T> b, const MatmulExtras<C>& extras) {
  const std::int64_t depth = extras.transpose_a ? a.rows : a.cols;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += load(extras.transpose_a ? a(k, i) : a(i, k)) *
               load(extras.transpose_b ? b(j, k) : b(k, j));
      }
      if (extras.bias) sum += load(extras.bias[j]);
      if (extras.addend) sum += load(extras.addend[i * c.stride + j]);
      store(c(i, j), sum);
    }
  }
}

// The gradient of a bias.
template <class Out, class T>
void column_sums(Out* out, Matrix<const T> x) {
  for (std::int64_t j = 0; j < x.cols; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.rows; ++i) sum += load(x(i, j));
    store(out[j], sum);
  }
}

template <class T>
void add_row(Matrix<T> x, const T* row) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j) store(x(i, j), load(x(i, j)) + load(row[j]));
  }
}

}  // namespace ebb::kernels::reference
