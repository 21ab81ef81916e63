#include "kernels/described_ops.h"

#include <algorithm>

namespace ebb::kernels {
namespace {

double elements(ConstView view) {
  return static_cast<double>(view.rows) * static_cast<double>(view.cols);
}

double bytes_of(ConstView view) { return elements(view) * static_cast<double>(size_of(view.type)); }

template <class... Views>
double bytes_of(ConstView first, Views... rest) {
  return bytes_of(first) + (bytes_of(ConstView(rest)) + ...);
}

double vector_bytes(std::int64_t count, DType type) {
  return static_cast<double>(count) * static_cast<double>(size_of(type));
}

// Pairs of a query and a key it sees, over all heads and sequences. Causal: the last query sees all
// keys, each one before it one less.
double visible_pairs(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.queries), keys = static_cast<double>(shape.keys);
  double per_head = queries * (keys - queries) + queries * (queries + 1) / 2;
  if (shape.window > 0 && shape.window < shape.keys) {
    // The last queries miss one key, two keys, ... as far as there are queries.
    const auto missed = static_cast<double>(shape.keys - shape.window);
    const double misses = std::min(queries, missed);
    per_head -= misses * missed - misses * (misses - 1) / 2;
  }
  return per_head * static_cast<double>(shape.batch * shape.heads);
}

double log_sum_bytes(const AttentionShape& shape) {
  return vector_bytes(shape.batch * shape.heads * shape.queries, DType::f32);
}

}  // namespace

void DescribedOps::matmul(View c, ConstView a, ConstView b, const MatmulOptions& given) {
  // A copy, as `run` may give the call other addresses for its operands.
  MatmulOptions options = given;
  const Product product{c, a, b, options};
  const auto depth = static_cast<double>(options.transpose_a ? a.rows : a.cols);
  const double extras = (options.bias ? 1 : 0) + (options.addend ? 1 : 0);
  call({.kind = OpKind::product,
        .flops = elements(c) * (2 * depth + extras),
        .bytes = bytes_of(a, b, c) + (options.addend ? bytes_of(c) : 0.0) +
                 (options.bias ? vector_bytes(c.cols, c.type) : 0.0),
        .product = &product},
       {c.data, a.data, b.data, options.bias, options.addend},
       [&](ModelOps& ops) { ops.matmul(c, a, b, options); });
}

void DescribedOps::linear(View y, ConstView x, const WeightMatrix& given,
                          const LinearOptions& given_options) {
  WeightMatrix weights = given;
  LinearOptions options = given_options;
  const Linear linear{y, x, weights, options};
  const double extras = (options.bias ? 1 : 0) + (options.addend ? 1 : 0);
  call({.kind = OpKind::product,
        .flops = elements(y) * (2 * static_cast<double>(x.cols) + extras),
        .bytes = bytes_of(x, y) + static_cast<double>(weights.bytes()) +
                 (options.addend ? bytes_of(y) : 0.0) +
                 (options.bias ? vector_bytes(y.cols, y.type) : 0.0),
        .linear = &linear},
       {y.data, x.data, weights.data, options.bias, options.addend},
       [&](ModelOps& ops) { ops.linear(y, x, weights, options); });
}

void DescribedOps::column_sums(void* out, DType type, ConstView x) {
  call({.flops = elements(x), .bytes = bytes_of(x) + vector_bytes(x.cols, type)}, {out, x.data},
       [&](ModelOps& ops) { ops.column_sums(out, type, x); });
}

void DescribedOps::add_row(View x, const void* row) {
  call({.flops = elements(x), .bytes = 2 * bytes_of(x) + vector_bytes(x.cols, x.type)},
       {x.data, row}, [&](ModelOps& ops) { ops.add_row(x, row); });
}

// Counted as if every id were in the table, though this may be a piece that has few of them.
void DescribedOps::embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
                         std::int64_t first) {
  call({.flops = scale == 1.0f ? 0 : elements(out),
        .bytes = 2 * bytes_of(out) + 4.0 * static_cast<double>(ids.size())},
       {out.data, table.data, ids},
       [&](ModelOps& ops) { ops.embed(out, table, ids, scale, first); });
}

void DescribedOps::embed(View out, const WeightMatrix& given, std::span<const std::int32_t> ids,
                         float scale, std::int64_t first) {
  WeightMatrix table = given;
  call({.flops = elements(out) * ((scale == 1.0f ? 0 : 1) + (in_blocks(table.type) ? 2 : 0)),
        .bytes = bytes_of(out) + static_cast<double>(out.rows * table.row_bytes()) +
                 4.0 * static_cast<double>(ids.size())},
       {out.data, table.data, ids},
       [&](ModelOps& ops) { ops.embed(out, table, ids, scale, first); });
}

void DescribedOps::embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                                  float scale, std::int64_t first) {
  // The rows of the sums that are touched are read and written.
  call({.flops = elements(dy) * (scale == 1.0f ? 1 : 2),
        .bytes = bytes_of(dy) + 8 * elements(dy) + 4.0 * static_cast<double>(ids.size())},
       {sums.data, dy.data, ids},
       [&](ModelOps& ops) { ops.embed_backward(sums, dy, ids, scale, first); });
}

void DescribedOps::norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
                        const void* bias, const LayerNorm& norm) {
  const double extra = (norm.kind == LayerNorm::Kind::layer ? 1 : 0) + (bias ? 1 : 0);
  const auto count = static_cast<double>(norm.stats(x.rows));
  call({.flops = elements(x) * ((stats_given ? 2 : 4) + extra) + (stats_given ? 0 : 3 * count),
        .bytes = bytes_of(x, y) + 4 * count +
                 vector_bytes(x.cols / norm.groups, x.type) * (bias ? 2 : 1)},
       {y.data, stats, x.data, weight, bias},
       [&](ModelOps& ops) { ops.norm(y, stats, stats_given, x, weight, bias, norm); });
}

void DescribedOps::norm_backward(const NormGradients& given, ConstView dy, ConstView x,
                                 const float* stats, const void* weight, const LayerNorm& norm) {
  NormGradients to = given;
  const std::int64_t width = x.cols / norm.groups;
  call({.flops =
            elements(x) * (11 + (norm.kind == LayerNorm::Kind::layer ? 3 : 0) + (to.dbias ? 1 : 0)),
        .bytes = bytes_of(to.dx, dy, x) + (to.add ? bytes_of(to.dx) : 0.0) +
                 4.0 * static_cast<double>(norm.stats(x.rows)) + vector_bytes(width, x.type) +
                 vector_bytes(width, to.type) * (to.dbias ? 2 : 1)},
       {to.dx.data, to.dweight, to.dbias, dy.data, x.data, stats, weight},
       [&](ModelOps& ops) { ops.norm_backward(to, dy, x, stats, weight, norm); });
}

void DescribedOps::rope(View x, const float* table, const RopeShape& shape) {
  const double rotated = static_cast<double>(x.rows * shape.heads * shape.head_dim);
  const std::int64_t positions = std::min(x.rows, shape.length);
  call({.flops = 3 * rotated,
        .bytes = 2 * rotated * static_cast<double>(size_of(x.type)) +
                 vector_bytes(positions * shape.head_dim, DType::f32)},
       {x.data, table}, [&](ModelOps& ops) { ops.rope(x, table, shape); });
}

void DescribedOps::attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                             const AttentionShape& shape) {
  call({.kind = OpKind::attention,
        .flops = visible_pairs(shape) * (4.0 * static_cast<double>(shape.head_dim) + 4),
        .bytes = bytes_of(out, q, k, v) + (log_sums ? log_sum_bytes(shape) : 0.0),
        .attention = &shape,
        .type = q.type},
       {out.data, log_sums, q.data, k.data, v.data},
       [&](ModelOps& ops) { ops.attention(out, log_sums, q, k, v, shape); });
}

void DescribedOps::attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q,
                                      ConstView k, ConstView v, ConstView out,
                                      const float* log_sums, const AttentionShape& shape) {
  call({.kind = OpKind::attention_backward,
        .flops = visible_pairs(shape) * (10.0 * static_cast<double>(shape.head_dim) + 6) +
                 2 * elements(out),
        .bytes = bytes_of(dq, dk, dv, dout, q, k, v, out) + log_sum_bytes(shape),
        .attention = &shape,
        .type = q.type},
       {dq.data, dk.data, dv.data, dout.data, q.data, k.data, v.data, out.data, log_sums},
       [&](ModelOps& ops) {
         ops.attention_backward(dq, dk, dv, dout, q, k, v, out, log_sums, shape);
       });
}

void DescribedOps::activate(View h, ConstView x, Activation activation) {
  call({.flops = (x.cols == h.cols ? 4 : 5) * elements(h), .bytes = bytes_of(h, x)},
       {h.data, x.data}, [&](ModelOps& ops) { ops.activate(h, x, activation); });
}

void DescribedOps::activate_backward(View dx, View h, ConstView dh, ConstView x,
                                     Activation activation) {
  call({.flops = (x.cols == dh.cols ? 7 : 10) * elements(dh) + elements(h),
        .bytes = bytes_of(dx, h, dh, x)},
       {dx.data, h.data, dh.data, x.data},
       [&](ModelOps& ops) { ops.activate_backward(dx, h, dh, x, activation); });
}

void DescribedOps::cross_entropy(const Pieces& given_dlogits, float* losses,
                                 const ConstPieces& given, std::span<const std::int32_t> targets,
                                 float scale) {
  Pieces dlogits = given_dlogits;
  ConstPieces logits = given;
  ConstView all = logits.first;
  all.cols = logits.cols;
  call({.flops = 6 * elements(all),
        .bytes = elements(all) * static_cast<double>(size_of(dlogits.first.type)) + bytes_of(all) +
                 8.0 * static_cast<double>(targets.size())},
       {dlogits.first.data, losses, logits.first.data, targets},
       [&](ModelOps& ops) { ops.cross_entropy(dlogits, losses, logits, targets, scale); });
}

void DescribedOps::row_statistics(RowStatistic* to, const RowPiece& given,
                                  std::span<const std::int32_t> targets, DType type) {
  RowPiece piece = given;
  const auto rows = static_cast<double>(targets.size());
  call({.flops = 3 * elements(piece.logits),
        .bytes = bytes_of(piece.logits) + rows * (4.0 + sizeof(RowStatistic))},
       {to, piece.logits.data, targets},
       [&](ModelOps& ops) { ops.row_statistics(to, piece, targets, type); });
}

void DescribedOps::row_losses(float* losses, const RowStatistics& given,
                              std::span<const std::int32_t> targets, DType type) {
  RowStatistics statistics = given;
  const auto rows = static_cast<double>(targets.size());
  call({.flops = 3 * rows * statistics.pieces,
        .bytes = rows * (8.0 + sizeof(RowStatistic) * static_cast<double>(statistics.pieces))},
       {losses, statistics.first, targets},
       [&](ModelOps& ops) { ops.row_losses(losses, statistics, targets, type); });
}

void DescribedOps::row_gradients(View dlogits, const RowPiece& given,
                                 const RowStatistics& given_statistics,
                                 std::span<const std::int32_t> targets, float scale) {
  RowPiece piece = given;
  RowStatistics statistics = given_statistics;
  const auto rows = static_cast<double>(targets.size());
  call({.flops = 3 * elements(piece.logits),
        .bytes = bytes_of(dlogits, piece.logits) +
                 rows * (4.0 + sizeof(RowStatistic) * static_cast<double>(statistics.pieces))},
       {dlogits.data, piece.logits.data, statistics.first, targets},
       [&](ModelOps& ops) { ops.row_gradients(dlogits, piece, statistics, targets, scale); });
}

void DescribedOps::sum(double* total, const float* values, std::int64_t count) {
  call({.flops = static_cast<double>(count), .bytes = 4.0 * static_cast<double>(count) + 8},
       {total, values}, [&](ModelOps& ops) { ops.sum(total, values, count); });
}

void DescribedOps::convert(View dst, ConstView src) {
  call({.bytes = bytes_of(dst, src)}, {dst.data, src.data},
       [&](ModelOps& ops) { ops.convert(dst, src); });
}

void DescribedOps::fill_zero(void* data, Bytes bytes) {
  call({.bytes = static_cast<double>(bytes)}, {data},
       [&](ModelOps& ops) { ops.fill_zero(data, bytes); });
}

}  // namespace ebb::kernels
