// Products of any size: cut into a fixed grid of tiles, each multiplied whole by one thread. The
// grid depends on the shape alone, so the number of threads changes no bit.
#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

namespace ebb::kernels {
namespace {

// On Zen 4, one thread reaches 95% of oneDNN's best at 256 x 512 and falls to 80% at 64 x 256.
constexpr TileGrid kLargestTile{256, 512};
// A product with fewer tiles is cut finer, as long as a tile is more than kSmallestWork: below that
// the start of a library call shows.
constexpr std::int64_t kEnoughTiles = 16;
constexpr std::int64_t kSmallestWork = std::int64_t{1} << 21;  // multiplications: some 20 us
// Sides of tiles are multiples of it: whole vectors of any instruction set.
constexpr std::int64_t kTileGrain = 16;
// Where products are widened first, so many of k's elements at a time.
constexpr std::int64_t kWidenedDepth = 512;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Cuts `size` into equal parts of at most `most`, so that no sliver is left at the end.
std::int64_t even_part(std::int64_t size, std::int64_t most) {
  const std::int64_t part = divide_up(size, divide_up(size, most));
  return std::min(size, divide_up(part, kTileGrain) * kTileGrain);
}

// c = a * b of m x n with depth k, as a grid of tiles.
struct TiledProduct {
  std::int64_t m, n, k;
  TileGrid grid;
  std::int64_t down = 0, across = 0;  // tiles

  TiledProduct(View c, ConstView a, const MatmulOptions& options)
      : m(c.rows), n(c.cols), k(options.transpose_a ? a.rows : a.cols), grid(matmul_grid(m, n, k)) {
    if (m == 0 || n == 0) return;
    down = divide_up(m, grid.rows);
    across = divide_up(n, grid.cols);
  }
  std::int64_t tiles() const { return down * across; }
};

struct Tile {
  std::int64_t row, col, rows, cols;

  // Down the rows first: the tiles in flight share one panel of b, the bigger operand as a rule.
  Tile(const TiledProduct& product, std::int64_t index)
      : row(index % product.down * product.grid.rows),
        col(index / product.down * product.grid.cols),
        rows(std::min(product.grid.rows, product.m - row)),
        cols(std::min(product.grid.cols, product.n - col)) {}
};

// All of the key but the tile's own size.
TileKey tile_key(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  TileKey key;
  key.lda = a.stride, key.ldb = b.stride, key.ldc = c.stride;
  key.in = a.type, key.out = c.type;
  key.transpose_a = options.transpose_a, key.transpose_b = options.transpose_b;
  key.bias = options.bias != nullptr, key.accumulate = options.addend != nullptr;
  return key;
}

// The shapes of tiles in a grid: inner, last column, last row, corner.
template <class Body>
void for_tile_shapes(const TiledProduct& product, const Body& body) {
  const std::int64_t last_rows = product.m - (product.down - 1) * product.grid.rows;
  const std::int64_t last_cols = product.n - (product.across - 1) * product.grid.cols;
  for (const bool last_row : {false, true}) {
    for (const bool last_col : {false, true}) {
      body(last_row ? last_rows : product.grid.rows, last_col ? last_cols : product.grid.cols,
           2 * last_row + last_col);
    }
  }
}

// The key of a tile whose operands were widened into dense fp32 panels of `depth`.
TileKey widened_key(std::int64_t rows, std::int64_t cols, std::int64_t depth,
                    const MatmulOptions& options) {
  TileKey key;
  key.m = rows, key.n = cols, key.k = depth;
  key.lda = options.transpose_a ? rows : depth;
  key.ldb = options.transpose_b ? depth : cols;
  key.ldc = cols;
  key.transpose_a = options.transpose_a, key.transpose_b = options.transpose_b;
  return key;
}

// A slot's memory while a widened tile is multiplied.
struct WidenedScratch {
  Bytes a, b, sum, library = 0;

  WidenedScratch(const TiledProduct& product, const MatmulOptions& options, TileCache& tiles) {
    const std::int64_t depth = std::min(product.k, kWidenedDepth);
    a = align_up(product.grid.rows * depth * 4);
    b = align_up(product.grid.cols * depth * 4);
    sum = align_up(product.grid.rows * product.grid.cols * 4);
    if (product.k == 0) return;
    const std::int64_t last = (product.k - 1) % kWidenedDepth + 1;
    for_tile_shapes(product, [&](std::int64_t rows, std::int64_t cols, int) {
      for (const std::int64_t k : {depth, last}) {
        TileKey key = widened_key(rows, cols, k, options);
        for (const bool more : {false, true}) {
          key.accumulate = more;
          // Every shape that a tile may have, at the first depth and at the last: what is asked for
          // here must do for all of them.
          library = std::max(library, align_up(tiles.find(key).scratch()));
        }
      }
    });
  }
  Bytes total() const { return a + b + sum + library; }
};

}  // namespace

TileGrid matmul_grid(std::int64_t m, std::int64_t n, std::int64_t k) {
  if (m == 0 || n == 0) return {};
  TileGrid grid{even_part(m, kLargestTile.rows), even_part(n, kLargestTile.cols)};
  while (divide_up(m, grid.rows) * divide_up(n, grid.cols) < kEnoughTiles &&
         grid.rows * grid.cols * k > kSmallestWork) {
    std::int64_t& longer = grid.cols >= grid.rows ? grid.cols : grid.rows;
    if (longer <= 2 * kTileGrain) break;
    longer = divide_up(divide_up(longer, 2), kTileGrain) * kTileGrain;
  }
  return grid;
}

void CpuOps::matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  const TiledProduct product(c, a, options);
  if (product.tiles() == 0) return;
  // Depth 0 is no product that the library knows: it is the bias and the addend alone.
  if (product.k == 0 || library_.widens(a.type)) {
    return matmul_widened(c, a, b, options);
  }
  tiles_.trim();
  TileKey key = tile_key(c, a, b, options);
  key.k = product.k;
  const TileMatmul* shapes[4] = {};
  Bytes scratch = 0;
  for_tile_shapes(product, [&](std::int64_t rows, std::int64_t cols, int index) {
    key.m = rows, key.n = cols;
    shapes[index] = &tiles_.find(key);
    scratch = std::max(scratch, shapes[index]->scratch());
  });
  std::byte* memory = check_scratch(scratch, "matmul");

  pool_.parallel_for(product.tiles(), [&](std::int64_t index, int slot) {
    const Tile tile(product, index);
    const bool last_row = tile.row + tile.rows == product.m;
    const bool last_col = tile.col + tile.cols == product.n;
    const Rows to = rows_of(c, tile.row, tile.col);
    // The library adds to what is in c: the addend is put there first.
    if (options.addend && options.addend != c.data) {
      const std::int64_t offset = tile.row * c.stride + tile.col;
      convert_rows(to, {element(options.addend, c.type, offset), c.type, c.stride}, tile.rows,
                   tile.cols);
    }
    TileMatmul::Operands operands;
    operands.c = to.data;
    operands.a = options.transpose_a ? rows_of(a, 0, tile.row).data : rows_of(a, tile.row).data;
    operands.b = options.transpose_b ? rows_of(b, tile.col).data : rows_of(b, 0, tile.col).data;
    operands.bias = options.bias ? element(options.bias, c.type, tile.col) : nullptr;
    operands.scratch = memory + slot * align_up(scratch);
    shapes[2 * last_row + last_col]->run(tiles_.stream(slot), operands);
  });
}

// A tile is summed up in fp32 over panels of the depth, and rounded once at its end.
void CpuOps::matmul_widened(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  const TiledProduct product(c, a, options);
  tiles_.trim();
  const WidenedScratch scratch(product, options, tiles_);
  std::byte* memory = check_scratch(scratch.total(), "matmul");
  pool_.parallel_for(product.tiles(), [&](std::int64_t index, int slot) {
    const Tile tile(product, index);
    std::byte* mine = memory + slot * scratch.total();
    auto* wide_a = reinterpret_cast<float*>(mine);
    auto* wide_b = reinterpret_cast<float*>(mine + scratch.a);
    auto* sum = reinterpret_cast<float*>(mine + scratch.a + scratch.b);
    if (product.k == 0) std::fill_n(sum, tile.rows * tile.cols, 0.0f);
    for (std::int64_t at = 0; at < product.k; at += kWidenedDepth) {
      const std::int64_t depth = std::min(kWidenedDepth, product.k - at);
      TileKey key = widened_key(tile.rows, tile.cols, depth, options);
      key.accumulate = at > 0;
      options.transpose_a
          ? convert_rows({wide_a, DType::f32, key.lda}, rows_of(a, at, tile.row), depth, tile.rows)
          : convert_rows({wide_a, DType::f32, key.lda}, rows_of(a, tile.row, at), tile.rows, depth);
      options.transpose_b
          ? convert_rows({wide_b, DType::f32, key.ldb}, rows_of(b, tile.col, at), tile.cols, depth)
          : convert_rows({wide_b, DType::f32, key.ldb}, rows_of(b, at, tile.col), depth, tile.cols);
      tiles_.run(key, slot,
                 {sum, wide_a, wide_b, nullptr, mine + scratch.total() - scratch.library});
    }
    const std::int64_t offset = tile.row * c.stride + tile.col;
    SumStore from{sum, tile.cols, nullptr, nullptr};
    if (options.bias) from.bias = element(options.bias, c.type, tile.col);
    if (options.addend) from.addend = element(options.addend, c.type, offset);
    store_sums(rows_of(c, tile.row, tile.col), from, tile.rows, tile.cols);
  });
}

Bytes CpuModelLibrary::matmul_scratch(View c, ConstView a, ConstView b,
                                      const MatmulOptions& options) const {
  const TiledProduct product(c, a, options);
  if (product.tiles() == 0) return 0;
  if (product.k == 0 || widens(a.type)) {
    return for_all_slots(WidenedScratch(product, options, tiles_).total());
  }
  TileKey key = tile_key(c, a, b, options);
  key.k = product.k;
  Bytes most = 0;
  for_tile_shapes(product, [&](std::int64_t rows, std::int64_t cols, int) {
    key.m = rows, key.n = cols;
    most = std::max(most, tiles_.find(key).scratch());
  });
  return for_all_slots(most);
}

}  // namespace ebb::kernels
