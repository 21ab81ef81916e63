// Products by cuBLASLt: one algorithm for each kind of product, kept from its first use on. It is
// the one that was chosen for it by timing, or the first that the library's heuristic names. The
// kind is shapes, strides, types, transposes, epilogue and whether operands lie on 16 bytes; the
// heuristic does not depend on free memory, timing or what ran before.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/gemm_tuner.h"

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
  bool run(const Product& product, std::byte* workspace, cudaStream_t stream);

  // Choices of algorithms as GemmTuner has them.
  void load_choices(const GemmChoices& choices);
  GemmChoices choices() const;
  bool chosen(const Product& product);

  // How many there are.
  std::int64_t plans() const { return static_cast<std::int64_t>(plans_.size()); }

  // Times the algorithms that the library offers for the product, whose c is overwritten, and keeps
  // the fastest under load: less than half a second where a run takes less than some milliseconds.
  void search(const Product& product, std::byte* workspace, cudaStream_t stream);

 private:
  using Key = std::array<std::int64_t, 17>;
  using Algorithm = cublasLtMatmulAlgo_t;
  using Layout = LtHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  struct Plan {
    LtHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
    Layout a, b, c;
    std::vector<Algorithm> offered;
    Algorithm algorithm{};
    bool found = false;
    bool chosen = false;  // by a search, now or before
  };

  // A product that is run again and again, with its plan, workspace and stream.
  struct Trial {
    const Plan& plan;
    const Product& product;
    std::byte* workspace;
    cudaStream_t stream;
  };

  static Key key_of(const Product& product);
  Plan& plan(const Product& product);
  Plan make(const Product& product) const;
  bool fits(const Plan& plan, const Algorithm& algorithm) const;
  cublasStatus_t queue(const Plan& plan, const Algorithm& algorithm, const Product& product,
                       std::byte* workspace, cudaStream_t stream) const;
  // Seconds of one of so many runs, queued one behind the other; infinite where the library refuses
  // them.
  double seconds(const Trial& trial, const Algorithm& algorithm, int runs) const;

  Bytes workspace_bytes_;
  LtHandle<cublasLtHandle_t, cublasLtDestroy> library_;
  std::map<Key, Plan> plans_;
  std::map<Key, Algorithm> choices_;  // loaded
};

}  // namespace ebb::kernels
