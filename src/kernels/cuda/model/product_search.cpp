// A search's operands lie one after the other in the memory it is given, each as far from a
// boundary of 16 bytes as it will be, and the workspace behind them.
#include <cublasLt.h>

#include <fmt/format.h>

#include "device/cuda_support.h"
#include "kernels/cuda/model/cuda_model_library.h"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/noise.h"
#include "kernels/cuda/stream_handle.h"

namespace ebb::kernels {
namespace {

// Hands out addresses from a base on, or from 0 on to see how much that takes.
class Places {
 public:
  explicit Places(std::byte* base) : base_(base) {}

  template <class V>
  V take(V view) {
    view.data = take(view.data, ((view.rows - 1) * view.stride + view.cols) * size_of(view.type));
    return view;
  }
  std::byte* take(const void* like, Bytes bytes) {
    const auto skew = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(like) % 16);
    std::byte* const at = base_ + used_ + skew;
    used_ += (skew + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  Bytes used() const { return used_; }

 private:
  static constexpr Bytes kAlignment = 256;
  std::byte* base_;
  Bytes used_ = 0;
};

Product placed(const Product& product, Places& places) {
  Product made = product;
  made.a = places.take(product.a);
  made.b = places.take(product.b);
  made.c = places.take(product.c);
  const MatmulOptions& options = product.options;
  if (options.bias != nullptr) {
    made.options.bias = places.take(options.bias, product.c.cols * size_of(product.c.type));
  }
  if (options.addend != nullptr) {
    View addend = product.c;
    addend.data = const_cast<void*>(options.addend);
    made.options.addend = options.addend == product.c.data ? made.c.data : places.take(addend).data;
  }
  return made;
}

}  // namespace

std::string CudaModelLibrary::conditions() const {
  return fmt::format("{}, cuBLASLt {}, workspace {}", device::describe_cuda().name,
                     cublasLtGetVersion(), CudaModelOps::kWorkspace);
}

Bytes CudaModelLibrary::search_bytes(const Product& product) const {
  Places places(nullptr);
  placed(product, places);
  return places.used() + CudaModelOps::kWorkspace + CudaModelOps::kScratchAlignment;
}

void CudaModelLibrary::search(const Product& product, const ExecutionContext& context) {
  // The memory is a buffer's and lies on 256 bytes.
  std::byte* const memory = context.scratch.data();
  const cudaStream_t stream = stream_handle(context);
  Places places(memory);
  const Product there = placed(product, places);
  cuda_model::fill_noise(memory, places.used(), stream);
  products_.search(there, memory + places.used(), stream);
}

}  // namespace ebb::kernels
