#include "kernels/cuda/model/fused_activation.h"

#include "kernels/cuda/model/cutlass/activated_products.h"
#include "kernels/views.h"

namespace ebb::kernels {
namespace {

// Whether the hardware can copy tiles of it: bf16, rows and start aligned to 16 bytes.
bool suits(ConstView view) {
  return view.type == DType::bf16 && view.stride % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

bool suits_or_absent(ConstView view) { return view.data == nullptr || suits(view); }

// Whether the current device is a Hopper, which the kernels are compiled for.
bool runs_here() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9;
}

class CutlassActivation final : public FusedActivation {
 public:
  bool forward(View h, const Product& x, Activation activation, cudaStream_t stream) override {
    if (!can(x, activation) || !x.options.transpose_b || x.c.cols != 2 * h.cols ||
        h.cols % 8 != 0 || !suits_or_absent(h)) {
      return false;
    }
    const auto half = [&](std::int64_t first) {
      return Product{columns(x.c, first, h.cols), x.a, rows_of(x.b, first, h.cols), x.options};
    };
    queue_activated(h, half(0), half(h.cols), stream);
    return true;
  }

  bool backward(View dx, View h, const Product& dh, ConstView x, Activation activation,
                cudaStream_t stream) override {
    const std::int64_t cols = dh.c.cols;
    if (!can(dh, activation) || dh.options.transpose_b || x.cols != 2 * cols || !suits(x) ||
        !suits(dx) || !suits_or_absent(h)) {
      return false;
    }
    queue_activation_gradient({.gate = columns(x, 0, cols),
                               .up = columns(x, cols, cols),
                               .gate_gradient = columns(dx, 0, cols),
                               .up_gradient = columns(dx, cols, cols)},
                              h, dh, stream);
    return true;
  }

 private:
  static bool can(const Product& p, Activation activation) {
    // Deeper products are so much faster by the library that passes of their own cost less.
    constexpr std::int64_t kDeepest = 4096;
    return activation == Activation::silu && !p.options.transpose_a && p.options.bias == nullptr &&
           p.options.addend == nullptr && p.c.rows > 0 && p.c.cols > 0 && p.c.cols % 8 == 0 &&
           p.a.cols > 0 && p.a.cols % 8 == 0 && p.a.cols <= kDeepest && suits(p.a) && suits(p.b) &&
           suits(p.c);
  }
};

}  // namespace

std::unique_ptr<FusedActivation> create_fused_activation() {
  return runs_here() ? std::make_unique<CutlassActivation>() : nullptr;
}

std::string fused_activation_version() {
  return runs_here() ? activated_products_version() : "passes";
}

}  // namespace ebb::kernels
