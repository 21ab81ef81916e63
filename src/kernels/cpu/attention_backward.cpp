// The gradients of attention, with the probabilities computed again from the saved log_sums. A job
// is one key head of one sequence: it alone adds to that head's dk and dv, in fp32 and in the order
// of the tiles.
#include <algorithm>

#include "kernels/cpu/attention_rows.h"
#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/cpu_ops.h"

namespace ebb::kernels {
namespace {

struct Operands {
  ConstView dout, q, k, v, out;
  const float* log_sums;
};

// One job's place in the operands.
struct KeyHead {
  std::int64_t batch, kv;
};

class BackwardJob {
 public:
  BackwardJob(TileCache& tiles, int slot, const AttentionShape& shape, DType type,
              const BackwardScratch& scratch)
      : tiles_(tiles), slot_(slot), shape_(shape), type_(type), mine_(scratch) {}

  void run(View dq, View dk, View dv, const Operands& in, KeyHead at) const {
    const std::int64_t d = shape_.head_dim, keys = shape_.keys;
    const std::int64_t group = shape_.heads / shape_.kv_heads, first = at.batch * keys;
    convert_rows({mine_.k, type_, d}, rows_of(in.k, first, at.kv * d), keys, d);
    convert_rows({mine_.v, type_, d}, rows_of(in.v, first, at.kv * d), keys, d);
    if (type_ != DType::f32) {
      convert_rows({mine_.k_wide, DType::f32, d}, {mine_.k, type_, d}, keys, d);
    }
    std::fill_n(mine_.dk, keys * d, 0.0f);
    std::fill_n(mine_.dv, keys * d, 0.0f);
    for (std::int64_t head = at.kv * group; head < (at.kv + 1) * group; ++head) {
      for (std::int64_t query = 0; query < keys; query += kQueryTile) {
        query_tile(dq, in, at.batch, head, query);
      }
    }
    convert_rows(rows_of(dk, first, at.kv * d), {mine_.dk, DType::f32, d}, keys, d);
    convert_rows(rows_of(dv, first, at.kv * d), {mine_.dv, DType::f32, d}, keys, d);
  }

 private:
  void query_tile(View dq, const Operands& in, std::int64_t batch, std::int64_t head,
                  std::int64_t query) const {
    const std::int64_t d = shape_.head_dim, row = batch * shape_.keys + query;
    const std::int64_t rows = std::min(kQueryTile, shape_.keys - query);
    const ConstRows dout = rows_of(in.dout, row, head * d);
    convert_rows({mine_.q, type_, d}, rows_of(in.q, row, head * d), rows, d);
    convert_rows({mine_.dout, type_, d}, dout, rows, d);
    if (type_ != DType::f32) {
      convert_rows({mine_.q_wide, DType::f32, d}, {mine_.q, type_, d}, rows, d);
      convert_rows({mine_.dout_wide, DType::f32, d}, {mine_.dout, type_, d}, rows, d);
    }
    row_dots(mine_.delta, dout, rows_of(in.out, row, head * d), rows, d);
    std::fill_n(mine_.dq, rows * d, 0.0f);
    const float* log_sums = in.log_sums + (batch * shape_.heads + head) * shape_.keys + query;
    for (std::int64_t key = first_key_tile(shape_, query); key < query + rows; key += kKeyTile) {
      const std::int64_t cols = std::min(kKeyTile, query + rows - key);
      const std::int64_t visible = query + 1 - key;
      tile({mine_.p, rows, cols, kKeyTile, visible, shape_.scale, shape_.window}, key, log_sums);
    }
    convert_rows(rows_of(dq, row, head * d), {mine_.dq, DType::f32, d}, rows, d);
  }

  void tile(const ScoreTile& p, std::int64_t key, const float* log_sums) const {
    const std::int64_t d = shape_.head_dim;
    const TileKey scores = scores_product(p.rows, p.cols, d, type_);
    const TileKey by_row = row_product(p.rows, p.cols, d);
    const TileKey by_column = column_product(p.rows, p.cols, d);
    ScoreTile dp = p;
    dp.scores = mine_.dp;
    multiply(scores, mine_.p, mine_.q, element(mine_.k, type_, key * d));
    probabilities(p, log_sums);
    multiply(scores, mine_.dp, mine_.dout, element(mine_.v, type_, key * d));
    multiply(by_column, mine_.dv + key * d, mine_.p, mine_.dout_wide);
    score_gradients(dp, mine_.p, mine_.delta);
    multiply(by_row, mine_.dq, mine_.dp, mine_.k_wide + key * d);
    multiply(by_column, mine_.dk + key * d, mine_.dp, mine_.q_wide);
  }

  void multiply(const TileKey& key, void* c, const void* a, const void* b) const {
    tiles_.run(key, slot_, {c, a, b, nullptr, mine_.library});
  }

  TileCache& tiles_;
  int slot_;
  const AttentionShape& shape_;
  DType type_;
  const BackwardScratch& mine_;
};

}  // namespace

void CpuOps::attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                                ConstView v, ConstView out, const float* log_sums,
                                const AttentionShape& shape) {
  if (shape.batch == 0 || shape.keys == 0) return;
  tiles_.trim();
  const DType type = library_.widens(q.type) ? DType::f32 : q.type;
  const Bytes library = library_.attention_library(shape, type, true);
  const Bytes bytes = BackwardScratch(nullptr, shape, type, library).bytes;
  std::byte* memory = check_scratch(bytes, "attention");
  const Operands in{dout, q, k, v, out, log_sums};
  pool_.parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t job, int slot) {
    const BackwardScratch mine(memory + slot * bytes, shape, type, library);
    BackwardJob(tiles_, slot, shape, type, mine)
        .run(dq, dk, dv, in, {job / shape.kv_heads, job % shape.kv_heads});
  });
}

}  // namespace ebb::kernels
