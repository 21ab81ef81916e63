// The products that CUTLASS makes and activates in one pass, queued. What they need of their
// operands is fused_activation.cpp's to know.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/model_ops.h"

namespace ebb::kernels {

// Each is a b^T, rounded; h = silu(gate) * up, where it has memory.
void queue_activated(View h, const Product& gate, const Product& up, cudaStream_t stream);

// dh = a b, not rounded; from gate and up their gradients and, where it has memory, h again.
struct GateAndUp {
  ConstView gate, up;
  View gate_gradient, up_gradient;
};
void queue_activation_gradient(const GateAndUp& x, View h, const Product& dh, cudaStream_t stream);

// The version of the library that makes them.
std::string activated_products_version();

}  // namespace ebb::kernels
