// The MLP's activations and their gradients, a row at a time. Compiled once per instruction set
// (Highway includes this file again and again).
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// An activation and its derivative.
struct Activated {
  Vector value;
  Vector slope;
};

// Where the exponential overflows this is 0, as it should be.
HWY_INLINE Vector sigmoid(Vector x) {
  const Vector one = hn::Set(Floats(), 1.0f);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

struct Silu {
  static HWY_INLINE Vector value(Vector x) { return hn::Mul(x, sigmoid(x)); }
  // s (1 + x (1 - s))
  static HWY_INLINE Activated both(Vector x) {
    const Vector one = hn::Set(Floats(), 1.0f), s = sigmoid(x);
    return {hn::Mul(x, s), hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one))};
  }
};

// x times the share of a normal distribution that lies below x. Beyond |x| it is e^(-x^2 / 2) u
// P(u) with u = 1 / (1 + 0.35 |x|), P fitted to 3e-8 (relative) up to where the exponential is 0.
struct Gelu {
  struct Parts {
    Vector below, exponent;
  };
  static HWY_INLINE Parts parts(Vector x) {
    const Floats d;
    const Vector one = hn::Set(d, 1.0f);
    const Vector e = exponential(hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
    const Vector u = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.35f), one));
    Vector p = hn::Set(d, -0.0291259643f);
    p = hn::MulAdd(p, u, hn::Set(d, 0.143872693f));
    p = hn::MulAdd(p, u, hn::Set(d, -0.255505472f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.158930287f));
    p = hn::MulAdd(p, u, hn::Set(d, -0.0229377784f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.105433188f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.119852379f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.139859095f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.139621571f));
    const Vector beyond = hn::Mul(e, hn::Mul(p, u));
    return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), beyond, hn::Sub(one, beyond)), e};
  }
  static HWY_INLINE Vector value(Vector x) { return hn::Mul(x, parts(x).below); }
  static HWY_INLINE Activated both(Vector x) {
    const Parts at = parts(x);
    // The normal distribution's density: 1 / sqrt(2 pi) times the exponential that is there
    // already.
    const Vector density = hn::Mul(at.exponent, hn::Set(Floats(), 0.398942280f));
    return {hn::Mul(x, at.below), hn::MulAdd(x, density, at.below)};
  }
};

// (1 + tanh(u)) / 2 is the sigmoid of 2 u.
struct GeluTanh {
  static constexpr float kFactor = 1.59576912f;  // 2 sqrt(2 / pi)
  static HWY_INLINE Vector inner(Vector x) {
    const Floats d;
    const Vector cubic = hn::Mul(hn::Mul(x, x), hn::Set(d, kFactor * 0.044715f));
    return hn::Mul(x, hn::Add(cubic, hn::Set(d, kFactor)));
  }
  static HWY_INLINE Vector value(Vector x) { return hn::Mul(x, sigmoid(inner(x))); }
  // s + x s (1 - s) (2 u)'
  static HWY_INLINE Activated both(Vector x) {
    const Floats d;
    const Vector s = sigmoid(inner(x)), rest = hn::Sub(hn::Set(d, 1.0f), s);
    const Vector square = hn::Mul(hn::Mul(x, x), hn::Set(d, 3 * kFactor * 0.044715f));
    const Vector slope = hn::Mul(hn::Mul(x, rest), hn::Add(square, hn::Set(d, kFactor)));
    return {hn::Mul(x, s), hn::MulAdd(s, slope, s)};
  }
};

// Gate and up lie side by side in a row of x: act(gate) * up.
template <class Act, class T>
void activate_row(T* h, const T* x, std::int64_t cols, bool gated) {
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector value = Act::value(load(x + j, n));
    store(gated ? hn::Mul(value, load(x + cols + j, n)) : value, h + j, n);
  });
}

// h is null where it is not wanted.
template <class Act, class T>
void activate_backward_row(T* dx, T* h, const T* dh, const T* x, std::int64_t cols, bool gated) {
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector d = load(dh + j, n);
    const Activated act = Act::both(load(x + j, n));
    const Vector up = gated ? load(x + cols + j, n) : hn::Set(Floats(), 1.0f);
    store(hn::Mul(hn::Mul(d, up), act.slope), dx + j, n);
    if (gated) store(hn::Mul(d, act.value), dx + cols + j, n);
    if (h != nullptr) store(hn::Mul(act.value, up), h + j, n);
  });
}

// Calls body(Act{}) with the type that computes the activation.
template <class Body>
HWY_INLINE void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::silu: return body(Silu{});
    case Activation::gelu: return body(Gelu{});
    case Activation::gelu_tanh: return body(GeluTanh{});
  }
}

void activate_any_row(Rows h, ConstRows x, std::int64_t cols, bool gated, Activation activation) {
  with_activation(activation, [&]<class Act>(Act) HWY_ATTR {
    h.type == DType::f32 ? activate_row<Act>(static_cast<float*>(h.data),
                                             static_cast<const float*>(x.data), cols, gated)
                         : activate_row<Act>(static_cast<bf16*>(h.data),
                                             static_cast<const bf16*>(x.data), cols, gated);
  });
}

void activate_backward_any_row(Rows dx, Rows h, ConstRows dh, ConstRows x, std::int64_t cols,
                               bool gated, Activation activation) {
  with_activation(activation, [&]<class Act>(Act) HWY_ATTR {
    if (dh.type == DType::f32) {
      activate_backward_row<Act>(static_cast<float*>(dx.data), static_cast<float*>(h.data),
                                 static_cast<const float*>(dh.data),
                                 static_cast<const float*>(x.data), cols, gated);
    } else {
      activate_backward_row<Act>(static_cast<bf16*>(dx.data), static_cast<bf16*>(h.data),
                                 static_cast<const bf16*>(dh.data),
                                 static_cast<const bf16*>(x.data), cols, gated);
    }
  });
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(activate_any_row);
HWY_EXPORT(activate_backward_any_row);

void CpuOps::activate(View h, ConstView x, Activation activation) {
  for_rows(h.rows, h.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(activate_any_row)
      (rows_of(h, i), rows_of(x, i), h.cols, x.cols == 2 * h.cols, activation);
    }
  });
}

void CpuOps::activate_backward(View dx, View h, ConstView dh, ConstView x, Activation activation) {
  for_rows(dh.rows, dh.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(activate_backward_any_row)
      (rows_of(dx, i), h.data == nullptr ? Rows{} : rows_of(h, i), rows_of(dh, i), rows_of(x, i),
       dh.cols, x.cols == 2 * dh.cols, activation);
    }
  });
}

}  // namespace ebb::kernels
#endif
