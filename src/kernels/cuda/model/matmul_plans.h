// Products by cuBLASLt: one algorithm for each kind of product, found by the library's heuristic at
// its first use and kept. The choice depends on shapes, strides, types, transposes, epilogue and
// whether operands lie on 16 bytes; not on free memory, timing or what ran before.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>

#include "kernels/model_ops.h"

namespace ebb::kernels {

template <auto Destroy>
struct LtRelease {
  template <class T>
  void operator()(T* handle) const {
    Destroy(handle);
  }
};
template <class Handle, auto Destroy>
using LtHandle = std::unique_ptr<std::remove_pointer_t<Handle>, LtRelease<Destroy>>;

class MatmulPlans {
 public:
  // `workspace` is the most that an algorithm may use.
  explicit MatmulPlans(Bytes workspace);

  // Queues c = op(a) op(b) (+ bias) (+ addend), or says false where the library has no algorithm.
  // No dimension is zero. `workspace` has the bytes given to the constructor and lies on 256.
  bool run(View c, ConstView a, ConstView b, const MatmulOptions& options, std::byte* workspace,
           cudaStream_t stream);

 private:
  using Key = std::array<std::int64_t, 17>;
  using Layout = LtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  struct Plan {
    LtHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
    Layout a, b, c;
    cublasLtMatmulAlgo_t algorithm{};
    bool found = false;
  };

  const Plan& plan(View c, ConstView a, ConstView b, const MatmulOptions& options);
  Plan make(View c, ConstView a, ConstView b, const MatmulOptions& options) const;

  Bytes workspace_bytes_;
  LtHandle<cublasLtHandle_t, cublasLtDestroy> library_;
  std::map<Key, Plan> plans_;
};

}  // namespace ebb::kernels
