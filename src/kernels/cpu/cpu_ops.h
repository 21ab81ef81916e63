// ModelOps on the CPU, of one task: Highway for what streams through memory, oneDNN for products.
// Each kernel family is a file of this folder that defines its members of CpuOps.
//
// Work is cut by shape into jobs for the pool; a job's result depends on its index alone. Scratch
// is cut evenly into one part per slot of the pool.
#pragma once

#include <cstddef>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cpu/cpu_model_library.h"
#include "kernels/model_ops.h"

namespace ebb::kernels {

class CpuOps final : public ModelOps {
 public:
  CpuOps(CpuModelLibrary& library, std::span<std::byte> scratch)
      : library_(library), pool_(library.pool()), tiles_(library.tiles()), scratch_(scratch) {}

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
  // Jobs of whole rows, about 16 Ki elements each: body(first, last).
  void for_rows(std::int64_t rows, std::int64_t cols,
                FunctionRef<void(std::int64_t first, std::int64_t last)> body);
  // Jobs of 64 columns: body(first, last).
  void for_columns(std::int64_t cols,
                   FunctionRef<void(std::int64_t first, std::int64_t last)> body);

  // The first byte of a slot's part, aligned to a cache line. Throws Error, naming `what`, when the
  // scratch is too small.
  std::byte* check_scratch(Bytes bytes_per_slot, const char* what) const;

  std::byte* check_linear_scratch(Bytes needed) const;

  void matmul_widened(View c, ConstView a, ConstView b, const MatmulOptions& options);
  void decode(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
              const AttentionShape& shape);

  CpuModelLibrary& library_;
  ThreadPool& pool_;
  TileCache& tiles_;
  std::span<std::byte> scratch_;
};

}  // namespace ebb::kernels
