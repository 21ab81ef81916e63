// What the reference kernels are written on: a typed view, and elements read as doubles and rounded
// once when stored. Storage is bf16, float or double; double is for gradient checks.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace ebb::kernels::reference {

// Rows of `stride` elements, of which `cols` are used. Does not own its memory.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  T& operator()(std::int64_t i, std::int64_t j) const { return data[i * stride + j]; }
};

// Elements as doubles: every sum of the specification is in double.
template <class T>
double load(T value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_float(value);
  } else {
    return value;
  }
}

// Rounds to nearest even; to bf16 by way of fp32, as kernels that sum in fp32 do.
template <class T>
void store(T& where, double value) {
  if constexpr (std::is_same_v<T, bf16>) {
    where = to_bf16(static_cast<float>(value));
  } else {
    where = static_cast<T>(value);
  }
}

}  // namespace ebb::kernels::reference
