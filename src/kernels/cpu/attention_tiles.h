// How attention is cut into tiles, and the products of a tile. Operands of products are dense
// copies in scratch: the tile's shape alone decides which kernel oneDNN picks, so that
// attention_scratch() can know its need, and results do not depend on strides.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_matmul.h"

namespace ebb::kernels {

inline constexpr std::int64_t kQueryTile = 64;
inline constexpr std::int64_t kKeyTile = 256;
// Fewer queries than this are decoding: own loops, whose cost does not depend on how many keys
// there are today (a product of every length would be compiled anew).
inline constexpr std::int64_t kFewQueries = 8;

// scores[rows x cols] = q k^T, in the type of the operands, into fp32 rows of kKeyTile.
inline TileKey scores_product(std::int64_t rows, std::int64_t cols, std::int64_t d, DType type) {
  TileKey key;
  key.m = rows, key.n = cols, key.k = d;
  key.lda = d, key.ldb = d, key.ldc = kKeyTile;
  key.in = type, key.transpose_b = true;
  return key;
}

// rows x d (+)= p[rows x cols] b[cols x d], all fp32.
inline TileKey row_product(std::int64_t rows, std::int64_t cols, std::int64_t d) {
  TileKey key;
  key.m = rows, key.n = d, key.k = cols;
  key.lda = kKeyTile, key.ldb = d, key.ldc = d;
  key.accumulate = true;
  return key;
}

// cols x d += p[rows x cols]^T b[rows x d], all fp32.
inline TileKey column_product(std::int64_t rows, std::int64_t cols, std::int64_t d) {
  TileKey key;
  key.m = cols, key.n = d, key.k = rows;
  key.lda = kKeyTile, key.ldb = d, key.ldc = d;
  key.transpose_a = true, key.accumulate = true;
  return key;
}

// The first key that the query at position `last` sees.
inline std::int64_t first_visible(const AttentionShape& shape, std::int64_t last) {
  return shape.window == 0 ? 0 : std::max<std::int64_t>(0, last + 1 - shape.window);
}

// Where the key tiles begin of a query tile whose first row is at position `first`: those before
// are seen by no row. Tiles keep their grid, so that a window adds no shapes.
inline std::int64_t first_key_tile(const AttentionShape& shape, std::int64_t first) {
  return first_visible(shape, first) / kKeyTile * kKeyTile;
}

// Calls body(rows, cols) for the tile shapes of causal attention; some come more than once.
template <class Body>
void for_attention_tiles(const AttentionShape& shape, const Body& body) {
  for (std::int64_t first = 0; first < shape.queries; first += kQueryTile) {
    const std::int64_t rows = std::min(kQueryTile, shape.queries - first);
    const std::int64_t keys = shape.keys - shape.queries + first + rows;
    if (keys >= kKeyTile) body(rows, kKeyTile);
    if (keys % kKeyTile != 0) body(rows, keys % kKeyTile);
  }
}

// Cuts a slot's scratch into pieces, or only adds them up when there is no memory yet.
class ScratchCutter {
 public:
  explicit ScratchCutter(std::byte* memory) : memory_(memory) {}

  void* take(Bytes bytes) {
    std::byte* piece = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ += align_up(bytes);
    return piece;
  }
  float* floats(std::int64_t count) { return static_cast<float*>(take(count * 4)); }
  Bytes taken() const { return taken_; }

 private:
  std::byte* memory_;
  Bytes taken_ = 0;
};

}  // namespace ebb::kernels
