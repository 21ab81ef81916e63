// The MLP's activations, plain or gated: act(gate) * up, with gate and up side by side in one
// matrix.
#pragma once

#include <cmath>
#include <numbers>

#include "kernels/model_ops.h"
#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

// An activation's value and slope at x.
struct Activated {
  double value, slope;
};

inline Activated activated(double x, Activation activation) {
  switch (activation) {
    case Activation::silu: {
      const double sigmoid = 1.0 / (1.0 + std::exp(-x));
      return {x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid))};
    }
    // erfc, as 1 + erf would lose all digits far below zero.
    case Activation::gelu: {
      const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
      const double density = std::exp(-x * x / 2) / std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      return {x * below, below + x * density};
    }
    case Activation::gelu_tanh: break;
  }
  const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  const double t = std::tanh(factor * (x + 0.044715 * x * x * x));
  const double inner = factor * (1.0 + 3 * 0.044715 * x * x);
  return {x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * inner};
}

// x has as many columns as h, or gate and up: twice as many.
template <class T>
void activate(Matrix<T> h, Matrix<const T> x, Activation activation) {
  const bool gated = x.cols == 2 * h.cols;
  for (std::int64_t i = 0; i < h.rows; ++i) {
    for (std::int64_t j = 0; j < h.cols; ++j) {
      const double value = activated(load(x(i, j)), activation).value;
      store(h(i, j), gated ? value * load(x(i, h.cols + j)) : value);
    }
  }
}

// Each element is read before its place is written, so dx and x may share memory, and h and dh.
template <class T>
void activate_backward(Matrix<T> dx, Matrix<T> h, Matrix<const T> dh, Matrix<const T> x,
                       Activation activation) {
  const bool gated = x.cols == 2 * dh.cols;
  for (std::int64_t i = 0; i < dh.rows; ++i) {
    for (std::int64_t j = 0; j < dh.cols; ++j) {
      const Activated act = activated(load(x(i, j)), activation);
      const double d = load(dh(i, j));
      const double up = gated ? load(x(i, dh.cols + j)) : 1.0;
      store(dx(i, j), d * up * act.slope);
      if (gated) store(dx(i, dh.cols + j), d * act.value);
      if (h.data != nullptr) store(h(i, j), act.value * up);
    }
  }
}

}  // namespace ebb::kernels::reference
