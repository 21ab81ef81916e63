// One matrix product on one thread, compiled by oneDNN for its exact shape, and the cache of those.
//
// oneDNN starts an OpenMP team in every thread that calls it unless that thread has asked for one
// thread before, also before primitives are made: both are done here. Its workspace is the caller's
// (scratch()), except for packed panels that it takes from the heap during a call and does not
// report: 0.6 to 0.9 MB a thread were seen.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/list.h"

namespace ebb::kernels {

// c[m x n] (+)= op(a) op(b) (+ bias). `lda` and the others are strides of rows as stored.
struct TileKey {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  DType in = DType::f32;
  DType out = DType::f32;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool accumulate = false;
  friend bool operator==(const TileKey&, const TileKey&) = default;
};

class TileMatmul {
 public:
  TileMatmul(const dnnl::engine& engine, const TileKey& key);

  struct Operands {
    void* c = nullptr;
    const void* a = nullptr;
    const void* b = nullptr;
    const void* bias = nullptr;
    void* scratch = nullptr;  // scratch() bytes, aligned to a cache line
  };
  void run(dnnl::stream& stream, const Operands& operands) const;
  Bytes scratch() const { return static_cast<Bytes>(description_.scratchpad_desc().get_size()); }

 private:
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
};

// Thread-safe. References stay valid until trim().
class TileCache {
 public:
  explicit TileCache(int slots);

  static bool has_bf16_products();

  const TileMatmul& find(const TileKey& key);
  void run(const TileKey& key, int slot, const TileMatmul::Operands& operands) {
    find(key).run(streams_[slot], operands);
  }
  dnnl::stream& stream(int slot) { return streams_[slot]; }

  // How many products were compiled so far, those forgotten included.
  std::int64_t made() const { return made_; }

  // Forgets everything once thousands of shapes have piled up (prompts of all lengths). Only while
  // nothing found is in use.
  void trim();

 private:
  struct Hash {
    std::size_t operator()(const TileKey& key) const;
  };

  dnnl::engine engine_;
  List<dnnl::stream> streams_;  // one per slot
  std::shared_mutex mutex_;
  std::unordered_map<TileKey, std::unique_ptr<TileMatmul>, Hash> found_;
  std::atomic<std::int64_t> made_{0};
};

}  // namespace ebb::kernels
