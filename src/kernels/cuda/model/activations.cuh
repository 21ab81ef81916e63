// The activations of an MLP at one point. value() is for the forward; an object is made at x for
// the backward, which wants products with the value and with the slope.
#pragma once

namespace ebb::kernels::cuda_model {

// x times a sigmoid of x: 1 / (1 + exp(-x)).
struct Silu {
  static __device__ float value(float x) { return x / (1.0f + expf(-x)); }

  float x, sigmoid;
  __device__ explicit Silu(float at) : x(at), sigmoid(1.0f / (1.0f + expf(-at))) {}
  __device__ float times_value(float d) const { return d * x * sigmoid; }
  __device__ float times_slope(float d) const {
    return d * sigmoid * fmaf(x, 1.0f - sigmoid, 1.0f);
  }
};

// x times the normal distribution function, whose slope is the density.
struct Gelu {
  static __device__ float value(float x) { return x * normcdff(x); }

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
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216057308f;  // of 2 u: 2 sqrt(2 / pi)
  static constexpr float kCubic = kLinear * 0.044715f;
  static __device__ float twice_u(float x) { return x * fmaf(kCubic * x, x, kLinear); }
  static __device__ float value(float x) { return x / (1.0f + expf(-twice_u(x))); }

  float x, sigmoid;
  __device__ explicit GeluTanh(float at) : x(at), sigmoid(1.0f / (1.0f + expf(-twice_u(at)))) {}
  __device__ float times_value(float d) const { return d * (x * sigmoid); }
  __device__ float times_slope(float d) const {
    const float steepness = fmaf(3.0f * kCubic * x, x, kLinear);  // of 2 u
    return d * (sigmoid * fmaf(x * (1.0f - sigmoid), steepness, 1.0f));
  }
};

}  // namespace ebb::kernels::cuda_model
