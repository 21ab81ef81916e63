// The activations of an MLP at one point: an object is made at x and gives products with the value
// and with the slope there. T is what results are stored as: bf16 keeps 8 bits, of which the
// hardware's approximations of exponential and quotient take none, and division alone would cost as
// much as the memory's traffic.
#pragma once

#include <type_traits>

#include "base/dtype.h"
#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

// 1 / (1 + exp(-x)).
template <class T>
__device__ float sigmoid_of(float x) {
  if constexpr (std::is_same_v<T, bf16>) {
    // A quotient by more than 2^126 comes out as 0. An exponential below 2^-126 may be one, too:
    // added to 1 it is nothing.
    return __fdividef(1.0f, 1.0f + exp_or_zero(-x));
  } else {
    return 1.0f / (1.0f + expf(-x));
  }
}

template <class T>
struct Silu {
  float x, sigmoid;
  __device__ explicit Silu(float at) : x(at), sigmoid(sigmoid_of<T>(at)) {}
  __device__ float times_value(float d) const { return d * (x * sigmoid); }
  __device__ float times_slope(float d) const {
    return d * sigmoid * fmaf(x, 1.0f - sigmoid, 1.0f);
  }
};

// x times the normal distribution function, whose slope is the density.
template <class T>
struct Gelu {
  float x, below;
  __device__ explicit Gelu(float at) : x(at), below(normcdff(at)) {}
  __device__ float times_value(float d) const { return d * (x * below); }
  __device__ float times_slope(float d) const {
    const float density = 0.3989422804014327f * expf(-0.5f * x * x);
    return d * fmaf(x, density, below);
  }
};

// As 1 + tanh(u) = 2 / (1 + exp(-2 u)), this is x times the sigmoid of 2 u, which keeps the small
// values of the left tail that 1 + tanh(u) would cancel.
template <class T>
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216057308f;  // of 2 u: 2 sqrt(2 / pi)
  static constexpr float kCubic = kLinear * 0.044715f;
  static __device__ float twice_u(float x) { return x * fmaf(kCubic * x, x, kLinear); }

  float x, sigmoid;
  __device__ explicit GeluTanh(float at) : x(at), sigmoid(sigmoid_of<T>(twice_u(at))) {}
  __device__ float times_value(float d) const { return d * (x * sigmoid); }
  __device__ float times_slope(float d) const {
    const float steepness = fmaf(3.0f * kCubic * x, x, kLinear);  // of 2 u
    return d * (sigmoid * fmaf(x * (1.0f - sigmoid), steepness, 1.0f));
  }
};

}  // namespace ebb::kernels::cuda_model
