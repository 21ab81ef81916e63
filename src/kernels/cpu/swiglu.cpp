#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/swiglu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

HWY_INLINE Vector sigmoid(Vector x) {
  const Vector one = hn::Set(Floats(), 1.0f);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

template <class T>
void swiglu_row(T* h, const T* gates, std::int64_t cols) {
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector gate = load(gates + j, n);
    const Vector up = load(gates + cols + j, n);
    store(hn::Mul(hn::Mul(gate, sigmoid(gate)), up), h + j, n);
  });
}

template <class T>
void swiglu_backward_row(T* dgates, const T* dh, const T* gates, std::int64_t cols) {
  const Vector one = hn::Set(Floats(), 1.0f);
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector gate = load(gates + j, n), up = load(gates + cols + j, n);
    const Vector d = load(dh + j, n), s = sigmoid(gate);
    const Vector slope = hn::Mul(s, hn::MulAdd(gate, hn::Sub(one, s), one));
    store(hn::Mul(hn::Mul(d, up), slope), dgates + j, n);
    store(hn::Mul(d, hn::Mul(gate, s)), dgates + cols + j, n);
  });
}

void swiglu_any_row(Rows h, ConstRows gates, std::int64_t cols) {
  h.type == DType::f32
      ? swiglu_row(static_cast<float*>(h.data), static_cast<const float*>(gates.data), cols)
      : swiglu_row(static_cast<bf16*>(h.data), static_cast<const bf16*>(gates.data), cols);
}

void swiglu_backward_any_row(Rows dgates, ConstRows dh, ConstRows gates, std::int64_t cols) {
  if (dh.type == DType::f32) {
    swiglu_backward_row(static_cast<float*>(dgates.data), static_cast<const float*>(dh.data),
                        static_cast<const float*>(gates.data), cols);
  } else {
    swiglu_backward_row(static_cast<bf16*>(dgates.data), static_cast<const bf16*>(dh.data),
                        static_cast<const bf16*>(gates.data), cols);
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(swiglu_any_row);
HWY_EXPORT(swiglu_backward_any_row);

void CpuOps::swiglu(View h, ConstView gate_up) {
  for_rows(h.rows, h.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(swiglu_any_row)(rows_of(h, i), rows_of(gate_up, i), h.cols);
    }
  });
}

void CpuOps::swiglu_backward(View dgate_up, ConstView dh, ConstView gate_up) {
  for_rows(dh.rows, dh.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(swiglu_backward_any_row)
      (rows_of(dgate_up, i), rows_of(dh, i), rows_of(gate_up, i), dh.cols);
    }
  });
}

}  // namespace ebb::kernels
#endif
