// Attention by tiles of queries: for each tile, the keys it can see pass by in blocks, and a
// running softmax keeps what was summed so far. No matrix of queries by keys ever exists.
#include <algorithm>
#include <limits>

#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/cpu_ops.h"

namespace ebb::kernels {
namespace {

// Memory is scratch with anything in it: all three begin here.
void start_softmax(const RunningSoftmax& softmax, std::int64_t rows) {
  std::fill_n(softmax.largest, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(softmax.total, rows, 0.0f);
  std::fill_n(softmax.out, rows * softmax.head_dim, 0.0f);
}

}  // namespace

// Makes every product that such a call runs, so that none is compiled while a step runs.
Bytes CpuModelLibrary::attention_library(const AttentionShape& shape, DType type,
                                         bool backward) const {
  const std::int64_t d = shape.head_dim;
  Bytes most = 0;
  for_attention_tiles(shape, [&](std::int64_t rows, std::int64_t cols) {
    most = std::max({most, tiles_.find(scores_product(rows, cols, d, type)).scratch(),
                     tiles_.find(row_product(rows, cols, d)).scratch()});
    if (backward) most = std::max(most, tiles_.find(column_product(rows, cols, d)).scratch());
  });
  return most;
}

Bytes CpuModelLibrary::attention_scratch(DType type, const AttentionShape& shape,
                                         bool backward) const {
  // Products compute in fp32 where the processor has none of bf16.
  const DType products = widens(type) ? DType::f32 : type;
  if (backward) {
    const Bytes library = attention_library(shape, products, true);
    return for_all_slots(BackwardScratch(nullptr, shape, products, library).bytes);
  }
  // As attention() decides: scratch must be that of the path which is taken.
  if (shape.queries < kFewQueries) return for_all_slots(DecodeScratch(nullptr, shape).bytes);
  const Bytes library = attention_library(shape, products, false);
  return for_all_slots(ForwardScratch(nullptr, shape, products, library).bytes);
}

void CpuOps::attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                       const AttentionShape& shape) {
  if (shape.batch == 0 || shape.queries == 0) return;
  if (shape.queries < kFewQueries) return decode(out, log_sums, q, k, v, shape);
  tiles_.trim();
  const DType type = library_.widens(q.type) ? DType::f32 : q.type;
  const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  const std::int64_t query_tiles = (shape.queries + kQueryTile - 1) / kQueryTile;
  const Bytes library = library_.attention_library(shape, type, false);
  const Bytes bytes = ForwardScratch(nullptr, shape, type, library).bytes;
  std::byte* memory = check_scratch(bytes, "attention");

  // The last tiles see most keys: longest jobs first.
  const std::int64_t heads = shape.batch * shape.heads;
  pool_.parallel_for(heads * query_tiles, [&](std::int64_t job, int slot) {
    const std::int64_t first = (query_tiles - 1 - job / heads) * kQueryTile;
    const std::int64_t batch = job % heads / shape.heads, head = job % shape.heads;
    const std::int64_t rows = std::min(kQueryTile, shape.queries - first);
    const std::int64_t before = shape.keys - shape.queries + first;  // keys before the first row
    const std::int64_t query_row = batch * shape.queries + first;
    const std::int64_t key_column = head / group * d;
    const ForwardScratch mine(memory + slot * bytes, shape, type, library);
    const RunningSoftmax softmax{mine.largest, mine.total, mine.out, d};
    start_softmax(softmax, rows);
    // Dense copies: rows of one head lie far apart, and the products want panels.
    convert_rows({mine.q, type, d}, rows_of(q, query_row, head * d), rows, d);

    // Keys behind the last row's position are never looked at; those before the window neither.
    for (std::int64_t key = first_key_tile(shape, before); key < before + rows; key += kKeyTile) {
      const std::int64_t cols = std::min(kKeyTile, before + rows - key);
      const std::int64_t key_row = batch * shape.keys + key;
      convert_rows({mine.k, type, d}, rows_of(k, key_row, key_column), cols, d);
      convert_rows({mine.v, DType::f32, d}, rows_of(v, key_row, key_column), cols, d);
      tiles_.run(scores_product(rows, cols, d, type), slot,
                 {mine.scores, mine.q, mine.k, nullptr, mine.library});
      advance_softmax(
          {mine.scores, rows, cols, kKeyTile, before + 1 - key, shape.scale, shape.window},
          softmax);
      tiles_.run(row_product(rows, cols, d), slot,
                 {mine.out, mine.scores, mine.v, nullptr, mine.library});
    }
    const std::int64_t stat = (batch * shape.heads + head) * shape.queries + first;
    finish_softmax(rows_of(out, query_row, head * d), log_sums ? log_sums + stat : nullptr, softmax,
                   rows);
  });
}

void CpuOps::decode(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                    const AttentionShape& shape) {
  const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  const Bytes bytes = DecodeScratch(nullptr, shape).bytes;
  std::byte* memory = check_scratch(bytes, "attention");
  // A job has the query heads that share a head of keys: keys and values are read once for all of
  // them.
  pool_.parallel_for(shape.batch * shape.kv_heads * shape.queries, [&](std::int64_t job, int slot) {
    const std::int64_t query = job % shape.queries, kv = job / shape.queries % shape.kv_heads;
    const std::int64_t batch = job / shape.queries / shape.kv_heads;
    const std::int64_t row = batch * shape.queries + query, head = kv * group;
    const std::int64_t visible = shape.keys - shape.queries + query + 1;
    const DecodeScratch mine(memory + slot * bytes, shape);
    const RunningSoftmax softmax{mine.largest, mine.total, mine.out, d};
    start_softmax(softmax, group);
    // The group's heads of one query lie side by side: rows of head_dim elements.
    const ConstRows queries{rows_of(q, row, head * d).data, q.type, d};
    for (std::int64_t key = first_visible(shape, visible - 1); key < visible; key += kKeyTile) {
      const std::int64_t cols = std::min(kKeyTile, visible - key);
      const ScoreTile tile{mine.scores, group, cols, kKeyTile, cols, shape.scale};
      const std::int64_t key_row = batch * shape.keys + key;
      decode_scores(tile, queries, rows_of(k, key_row, kv * d), d);
      advance_softmax(tile, softmax);
      decode_values(tile, softmax, rows_of(v, key_row, kv * d));
    }
    finish_softmax({rows_of(out, row, head * d).data, out.type, d}, nullptr, softmax, group);
    if (log_sums == nullptr) return;
    for (std::int64_t g = 0; g < group; ++g) {
      float sum = 0;
      const RunningSoftmax one{mine.largest + g, mine.total + g, mine.out, 0};
      finish_softmax({}, &sum, one, 1);
      log_sums[(batch * shape.heads + head + g) * shape.queries + query] = sum;
    }
  });
}

}  // namespace ebb::kernels
