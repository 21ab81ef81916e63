// A gated activation, and its gradient, in the pass of the product before it: a tile of the product
// is activated, or turned into gradients of gate and up, while it is in registers, and the memory
// it would have been read from again has that much less to do. cutlass/ implements it with CUTLASS,
// no_cutlass/ stands in where that is not built; the build takes one of them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/model_ops.h"

namespace ebb::kernels {

class FusedActivation {
 public:
  virtual ~FusedActivation() = default;
  // As ModelOps::product_activate and product_activate_backward, queued; false where it is not for
  // this device, these shapes or this activation. An h on a boundary of 16 bytes and no h are one
  // to it.
  virtual bool forward(View h, const Product& x, Activation activation, cudaStream_t stream) = 0;
  virtual bool backward(View dx, View h, const Product& dh, ConstView x, Activation activation,
                        cudaStream_t stream) = 0;
};

// Null where none is built in, or not for this device.
std::unique_ptr<FusedActivation> create_fused_activation();
// The versions that decide its numbers, for the numerics key.
std::string fused_activation_version();

}  // namespace ebb::kernels
