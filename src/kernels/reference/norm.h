// Root-mean-square normalisation. `Stat` is the type of the saved rstd.
#pragma once

#include <cmath>

#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class T, class Stat>
void rms_norm(Matrix<T> y, Stat* rstd, bool rstd_given, Matrix<const T> x, const T* weight,
              double epsilon) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    if (!rstd_given) {
      double squares = 0;
      for (std::int64_t j = 0; j < x.cols; ++j) squares += load(x(i, j)) * load(x(i, j));
      rstd[i] = static_cast<Stat>(1.0 / std::sqrt(squares / static_cast<double>(x.cols) + epsilon));
    }
    for (std::int64_t j = 0; j < x.cols; ++j) {
      store(y(i, j), load(x(i, j)) * rstd[i] * load(weight[j]));
    }
  }
}

// With xhat = x * rstd and g = dy * weight: dx += rstd * (g - xhat * mean(g * xhat)).
template <class T, class DWeight, class Stat>
void rms_norm_backward(Matrix<T> dx, DWeight* dweight, Matrix<const T> dy, Matrix<const T> x,
                       const Stat* rstd, const T* weight) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    double mean = 0;
    for (std::int64_t j = 0; j < x.cols; ++j) {
      mean += load(dy(i, j)) * load(weight[j]) * load(x(i, j)) * rstd[i];
    }
    mean /= static_cast<double>(x.cols);
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double xhat = load(x(i, j)) * rstd[i];
      const double g = load(dy(i, j)) * load(weight[j]);
      store(dx(i, j), load(dx(i, j)) + rstd[i] * (g - xhat * mean));
    }
  }
  for (std::int64_t j = 0; j < x.cols; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.rows; ++i) sum += load(dy(i, j)) * load(x(i, j)) * rstd[i];
    store(dweight[j], sum);
  }
}

}  // namespace ebb::kernels::reference
