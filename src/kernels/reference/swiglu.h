// The gated activation: silu(gate) * up, with gate and up side by side in one matrix.
#pragma once

#include <cmath>

#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class T>
void swiglu(Matrix<T> h, Matrix<const T> gate_up) {
  for (std::int64_t i = 0; i < h.rows; ++i) {
    for (std::int64_t j = 0; j < h.cols; ++j) {
      const double gate = load(gate_up(i, j));
      store(h(i, j), gate / (1.0 + std::exp(-gate)) * load(gate_up(i, h.cols + j)));
    }
  }
}

// Each pair is read before it is written, so the two may share memory.
template <class T>
void swiglu_backward(Matrix<T> dgate_up, Matrix<const T> dh, Matrix<const T> gate_up) {
  for (std::int64_t i = 0; i < dh.rows; ++i) {
    for (std::int64_t j = 0; j < dh.cols; ++j) {
      const double gate = load(gate_up(i, j)), up = load(gate_up(i, dh.cols + j));
      const double sigmoid = 1.0 / (1.0 + std::exp(-gate));
      const double d = load(dh(i, j));
      store(dgate_up(i, j), d * up * sigmoid * (1.0 + gate * (1.0 - sigmoid)));
      store(dgate_up(i, dh.cols + j), d * gate * sigmoid);
    }
  }
}

}  // namespace ebb::kernels::reference
