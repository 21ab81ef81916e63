#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

template <class T>
void rotate_row(T* x, const float* angles, const ModelOps::RopeShape& shape) {
  const Floats d;
  const std::int64_t half = shape.head_dim / 2;
  const Vector direction = hn::Set(d, shape.inverse ? -1.0f : 1.0f);
  const auto rotate = [&](T* pair, Vector cosine, Vector sine, std::int64_t n) EBB_LANES {
    const Vector a = load(pair, n), b = load(pair + half, n);
    store(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), pair, n);
    store(hn::MulAdd(a, sine, hn::Mul(b, cosine)), pair + half, n);
  };
  for_vectors(half, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    // The angles of a position serve all heads; pairs are taken apart once for them.
    HWY_ALIGN float cosines[kMostLanes] = {}, sines[kMostLanes] = {};
    for (std::int64_t l = 0; l < n; ++l) {
      cosines[l] = angles[2 * (j + l)];
      sines[l] = angles[2 * (j + l) + 1];
    }
    const Vector cosine = load(cosines), sine = hn::Mul(load(sines), direction);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      rotate(x + h * shape.head_dim + j, cosine, sine, n);
    }
  });
}

void rotate_any_row(Rows x, const float* angles, const ModelOps::RopeShape& shape) {
  x.type == DType::f32 ? rotate_row(static_cast<float*>(x.data), angles, shape)
                       : rotate_row(static_cast<bf16*>(x.data), angles, shape);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(rotate_any_row);

void CpuOps::rope(View x, const float* table, const RopeShape& shape) {
  for_rows(x.rows, shape.heads * shape.head_dim, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t position = shape.start + i % shape.length;
      HWY_DYNAMIC_DISPATCH(rotate_any_row)
      (rows_of(x, i), table + position * (shape.head_dim / 2) * 2, shape);
    }
  });
}

}  // namespace ebb::kernels
#endif
