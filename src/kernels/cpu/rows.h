// Rows of fp32 or bf16 in memory without a shape, and the change of type between them: what the
// kernel families of this folder share.
#pragma once

#include <cstdint>

#include "kernels/model_ops.h"

namespace ebb::kernels {

struct ConstRows {
  const void* data = nullptr;
  DType type = DType::f32;
  std::int64_t stride = 0;
};

struct Rows {
  void* data = nullptr;
  DType type = DType::f32;
  std::int64_t stride = 0;
  operator ConstRows() const { return {data, type, stride}; }
};

inline const void* element(const void* data, DType type, std::int64_t index) {
  return static_cast<const std::byte*>(data) + index * size_of(type);
}
inline void* element(void* data, DType type, std::int64_t index) {
  return static_cast<std::byte*>(data) + index * size_of(type);
}

inline ConstRows rows_of(ConstView view, std::int64_t row, std::int64_t col = 0) {
  return {element(view.data, view.type, row * view.stride + col), view.type, view.stride};
}
inline Rows rows_of(View view, std::int64_t row, std::int64_t col = 0) {
  return {element(view.data, view.type, row * view.stride + col), view.type, view.stride};
}

// Up to whole cache lines.
constexpr Bytes align_up(Bytes bytes) { return (bytes + 63) / 64 * 64; }

// dst = src, rounded to nearest even where dst is narrower. The two do not overlap.
void convert_rows(Rows dst, ConstRows src, std::int64_t rows, std::int64_t cols);

// c = sum (+ bias) (+ addend), rounded once: the end of a product that was summed in fp32. `sum`
// has `sum_stride`; bias and addend are of c's type and may be null; addend has c's stride.
struct SumStore {
  const float* sum = nullptr;
  std::int64_t sum_stride = 0;
  const void* bias = nullptr;
  const void* addend = nullptr;
};
void store_sums(Rows c, const SumStore& from, std::int64_t rows, std::int64_t cols);

}  // namespace ebb::kernels
