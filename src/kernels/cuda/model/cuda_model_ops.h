// ModelOps on a CUDA stream, of one task. Each kernel family is a file of this folder that defines
// its members of CudaModelOps.
//
// Results depend on shapes, strides and values alone: grids are cut by shape, sums have one written
// order, no float is added atomically, and libraries are held to one algorithm a shape.
//
// Scratch: a product may use kWorkspace bytes, and matmul_scratch() asks for them whatever the
// shape. The partial sums of norm_backward and column_sums are cut to fit into the same bytes,
// so a program that multiplies matrices has room for them too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "kernels/bound_ops.h"
#include "kernels/model_ops.h"

namespace ebb::kernels {

class CudaModelLibrary;

class CudaModelOps final : public ModelOps {
 public:
  static constexpr Bytes kWorkspace = 32 * kMiB;
  static constexpr Bytes kScratchAlignment = 256;  // what is asked for has room to align

  CudaModelOps(CudaModelLibrary& library, const ExecutionContext& context);

  using ModelOps::cross_entropy;
  using ModelOps::embed;
  using ModelOps::embed_backward;
  using ModelOps::linear;
  using ModelOps::matmul;
  void matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) override;
  void linear(View y, ConstView x, const WeightMatrix& weights,
              const LinearOptions& options) override;
  void column_sums(void* out, DType type, ConstView x) override;
  void add_row(View x, const void* row) override;
  void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
             std::int64_t first) override;
  void embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids, float scale,
             std::int64_t first) override;
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids, float scale,
                      std::int64_t first) override;
  void norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
            const void* bias, const LayerNorm& norm) override;
  void norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float* stats,
                     const void* weight, const LayerNorm& norm) override;
  void rope(View x, const float* table, const RopeShape& shape) override;
  void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape) override;
  void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                          ConstView v, ConstView out, const float* log_sums,
                          const AttentionShape& shape) override;
  void activate(View h, ConstView x, Activation activation) override;
  void activate_backward(View dx, View h, ConstView dh, ConstView x,
                         Activation activation) override;
  void product_activate(View h, const Product& x, Activation activation) override;
  void product_activate_backward(View dx, View h, const Product& dh, ConstView x,
                                 Activation activation) override;
  void cross_entropy(const Pieces& dlogits, float* losses, const ConstPieces& logits,
                     std::span<const std::int32_t> targets, float scale) override;
  void row_statistics(RowStatistic* to, const RowPiece& piece,
                      std::span<const std::int32_t> targets, DType type) override;
  void row_losses(float* losses, const RowStatistics& statistics,
                  std::span<const std::int32_t> targets, DType type) override;
  void row_gradients(View dlogits, const RowPiece& piece, const RowStatistics& statistics,
                     std::span<const std::int32_t> targets, float scale) override;
  void sum(double* total, const float* values, std::int64_t count) override;
  void convert(View dst, ConstView src) override;
  void fill_zero(void* data, Bytes bytes) override;

 private:
  // The scratch from a boundary of kScratchAlignment on; throws Error, naming `what`, when fewer
  // than `bytes` lie behind it.
  std::byte* scratch(Bytes bytes, const char* what) const;

  CudaModelLibrary& library_;
  cudaStream_t stream_;
  std::span<std::byte> scratch_;
};

}  // namespace ebb::kernels
