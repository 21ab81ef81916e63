// What the CPU's model ops are made from: the pool, and the products that oneDNN has compiled.
#pragma once

#include "base/thread_pool.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/model_library.h"

namespace ebb::kernels {

// The tiles a product is cut into, by its shape alone: part of the numerics key, because other
// tiles give other roundings. Every tile but the last of a row or column has this size.
struct TileGrid {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};
TileGrid matmul_grid(std::int64_t m, std::int64_t n, std::int64_t k);

// Scratch of ModelOps::linear on so many threads.
Bytes cpu_linear_scratch(const Linear& linear, int threads);

class CpuModelLibrary final : public ModelLibrary {
 public:
  // `pool` outlives this. oneDNN multiplies bf16 from AVX-512 on; elsewhere tiles are widened to
  // fp32 first. `bf16_products` says which, and is chosen otherwise in tests only.
  explicit CpuModelLibrary(ThreadPool& pool, bool bf16_products = TileCache::has_bf16_products())
      : pool_(pool), bf16_products_(bf16_products), tiles_(pool.slots()) {}

  // The context's stream is not needed.
  Bound<ModelOps> ops(const ExecutionContext& context) override;
  Bytes matmul_scratch(View c, ConstView a, ConstView b,
                       const MatmulOptions& options) const override;
  Bytes linear_scratch(const Linear& linear) const override {
    return cpu_linear_scratch(linear, pool_.slots());
  }
  Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const override;
  // oneDNN packs operands of some products in heap memory that it does not report: up to 0.85 MB a
  // thread were seen.
  Bytes library_bytes() const override { return pool_.slots() * kMiB; }
  // Making a product's tiles is how their scratch is found.
  void prepare(const Product& p) override { matmul_scratch(p.c, p.a, p.b, p.options); }
  std::int64_t entries() const override { return tiles_.made(); }

  // Parts of the library that its ops use.
  ThreadPool& pool() { return pool_; }
  TileCache& tiles() { return tiles_; }
  // Whether products of `type` are multiplied in fp32 after all.
  bool widens(DType type) const { return type == DType::bf16 && !bf16_products_; }
  // Bytes that all slots need when each needs `bytes`, with room to align.
  Bytes for_all_slots(Bytes bytes) const;
  // The most that oneDNN wants as workspace for one tile's products of `type`.
  Bytes attention_library(const AttentionShape& shape, DType type, bool backward) const;

 private:
  ThreadPool& pool_;
  bool bf16_products_;
  mutable TileCache tiles_;
};

}  // namespace ebb::kernels
