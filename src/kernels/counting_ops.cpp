#include "kernels/counting_ops.h"

#include <algorithm>
#include <utility>

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

// Pairs of a query and a key it sees, over all heads and sequences.
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

CountingOps::Count CountingOps::take() { return std::exchange(count_, Count{}); }

void CountingOps::add(double flops, double bytes, Kind kind, std::int64_t shortest) {
  count_.flops += flops;
  count_.bytes += bytes;
  count_.calls.push_back({kind, flops, bytes, shortest});
}

void CountingOps::need(Bytes scratch) { count_.scratch = std::max(count_.scratch, scratch); }

void CountingOps::matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) {
  const auto depth = static_cast<double>(options.transpose_a ? a.rows : a.cols);
  const double extras = (options.bias ? 1 : 0) + (options.addend ? 1 : 0);
  add(elements(c) * (2 * depth + extras),
      bytes_of(a, b, c) + (options.addend ? bytes_of(c) : 0.0) +
          (options.bias ? vector_bytes(c.cols, c.type) : 0.0),
      Kind::product, std::min({c.rows, c.cols, options.transpose_a ? a.rows : a.cols}));
  need(matmul_scratch(c, a, b, options));
}

void CountingOps::column_sums(void*, DType type, ConstView x) {
  add(elements(x), bytes_of(x) + vector_bytes(x.cols, type));
}

void CountingOps::add_row(View x, const void*) {
  add(elements(x), 2 * bytes_of(x) + vector_bytes(x.cols, x.type));
}

void CountingOps::embed(View out, ConstView, std::span<const std::int32_t> ids, float scale) {
  add(scale == 1.0f ? 0 : elements(out), 2 * bytes_of(out) + 4.0 * static_cast<double>(ids.size()));
}

void CountingOps::embed_backward(View, ConstView dy, std::span<const std::int32_t> ids,
                                 float scale) {
  // The rows of the sums that are touched are read and written.
  add(elements(dy) * (scale == 1.0f ? 1 : 2),
      bytes_of(dy) + 8 * elements(dy) + 4.0 * static_cast<double>(ids.size()));
}

void CountingOps::norm(View y, float*, bool stats_given, ConstView x, const void*, const void* bias,
                       const Norm& norm) {
  const double extra = (norm.kind == Norm::Kind::layer ? 1 : 0) + (bias ? 1 : 0);
  const auto stats = static_cast<double>(norm.stats(x.rows));
  add(elements(x) * ((stats_given ? 2 : 4) + extra) + (stats_given ? 0 : 3 * stats),
      bytes_of(x, y) + 4 * stats + vector_bytes(x.cols / norm.groups, x.type) * (bias ? 2 : 1));
}

void CountingOps::norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float*,
                                const void*, const Norm& norm) {
  const std::int64_t width = x.cols / norm.groups;
  add(elements(x) * (11 + (norm.kind == Norm::Kind::layer ? 3 : 0) + (to.dbias ? 1 : 0)),
      bytes_of(to.dx, dy, x) + (to.add ? bytes_of(to.dx) : 0.0) +
          4.0 * static_cast<double>(norm.stats(x.rows)) + vector_bytes(width, x.type) +
          vector_bytes(width, to.type) * (to.dbias ? 2 : 1));
}

void CountingOps::rope(View x, const float*, const RopeShape& shape) {
  const double rotated = static_cast<double>(x.rows * shape.heads * shape.head_dim);
  const std::int64_t positions = std::min(x.rows, shape.length);
  add(3 * rotated, 2 * rotated * static_cast<double>(size_of(x.type)) +
                       vector_bytes(positions * shape.head_dim, DType::f32));
}

void CountingOps::attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                            const AttentionShape& shape) {
  add(visible_pairs(shape) * (4.0 * static_cast<double>(shape.head_dim) + 4),
      bytes_of(out, q, k, v) + (log_sums ? log_sum_bytes(shape) : 0.0), Kind::attention);
  need(attention_scratch(q.type, shape, false));
}

void CountingOps::attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q,
                                     ConstView k, ConstView v, ConstView out, const float*,
                                     const AttentionShape& shape) {
  add(visible_pairs(shape) * (10.0 * static_cast<double>(shape.head_dim) + 6) + 2 * elements(out),
      bytes_of(dq, dk, dv, dout, q, k, v, out) + log_sum_bytes(shape), Kind::attention_backward);
  need(attention_scratch(q.type, shape, true));
}

void CountingOps::activate(View h, ConstView x, Activation) {
  add((x.cols == h.cols ? 4 : 5) * elements(h), bytes_of(h, x));
}

void CountingOps::activate_backward(View dx, View h, ConstView dh, ConstView x, Activation) {
  add((x.cols == dh.cols ? 7 : 10) * elements(dh) + elements(h), bytes_of(dx, h, dh, x));
}

void CountingOps::cross_entropy(View dlogits, float*, ConstView logits,
                                std::span<const std::int32_t> targets, float) {
  add(6 * elements(logits), bytes_of(dlogits, logits) + 8.0 * static_cast<double>(targets.size()));
}

void CountingOps::sum(double*, const float*, std::int64_t count) {
  add(static_cast<double>(count), 4.0 * static_cast<double>(count) + 8);
}

void CountingOps::convert(View dst, ConstView src) { add(0, bytes_of(dst, src)); }

void CountingOps::fill_zero(void*, Bytes bytes) { add(0, static_cast<double>(bytes)); }

}  // namespace ebb::kernels
