#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

template <class T>
void scale_row(T* to, const T* from, float scale, std::int64_t cols) {
  const Vector factor = hn::Set(Floats(), scale);
  for_vectors(cols, [&](std::int64_t j, std::int64_t n)
                        EBB_LANES { store(hn::Mul(load(from + j, n), factor), to + j, n); });
}

void scale_any_row(Rows to, ConstRows from, float scale, std::int64_t cols) {
  to.type == DType::f32
      ? scale_row(static_cast<float*>(to.data), static_cast<const float*>(from.data), scale, cols)
      : scale_row(static_cast<bf16*>(to.data), static_cast<const bf16*>(from.data), scale, cols);
}

template <class T>
void add_rows(View sums, ConstView dy, std::span<const std::int32_t> ids, float scale,
              std::int64_t first_id, std::int64_t first, std::int64_t last) {
  const Vector factor = hn::Set(Floats(), scale);
  for (std::int64_t i = 0; i < dy.rows; ++i) {
    const std::int64_t row = ids.data()[i] - first_id;
    if (row < 0 || row >= sums.rows) continue;
    float* to = static_cast<float*>(sums.data) + row * sums.stride + first;
    const T* from = static_cast<const T*>(dy.data) + i * dy.stride + first;
    for_vectors(last - first, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      store(hn::Add(load(to + j, n), hn::Mul(load(from + j, n), factor)), to + j, n);
    });
  }
}

void add_any_rows(View sums, ConstView dy, std::span<const std::int32_t> ids, float scale,
                  std::int64_t first_id, std::int64_t first, std::int64_t last) {
  dy.type == DType::f32 ? add_rows<float>(sums, dy, ids, scale, first_id, first, last)
                        : add_rows<bf16>(sums, dy, ids, scale, first_id, first, last);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(scale_any_row);
HWY_EXPORT(add_any_rows);

void CpuOps::embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
                   std::int64_t first_id) {
  for_rows(out.rows, out.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = ids.data()[i] - first_id;
      if (row < 0 || row >= table.rows) continue;
      if (scale == 1.0f) {
        convert_rows(rows_of(out, i), rows_of(table, row), 1, out.cols);
        continue;
      }
      HWY_DYNAMIC_DISPATCH(scale_any_row)
      (rows_of(out, i), rows_of(table, row), scale, out.cols);
    }
  });
}

// By columns: rows of the table repeat among the ids, and their order is part of the result.
void CpuOps::embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids, float scale,
                            std::int64_t first_id) {
  for_columns(dy.cols, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(add_any_rows)(sums, dy, ids, scale, first_id, first, last);
  });
}

}  // namespace ebb::kernels
#endif
