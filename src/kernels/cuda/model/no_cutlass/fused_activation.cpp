// No CUTLASS in this build: products and activations are passes of their own. Building with it (the
// headers of the PyPI package nvidia-cutlass) makes a step on Hopper faster.
#include "kernels/cuda/model/fused_activation.h"

namespace ebb::kernels {

std::unique_ptr<FusedActivation> create_fused_activation() { return nullptr; }
std::string fused_activation_version() { return "passes"; }

}  // namespace ebb::kernels
