// The parts of a decoder that know how its parameters lie in memory: linear layers, norms, and what
// happens to queries and keys before they meet.
#include <algorithm>
#include <cmath>

#include "kernels/views.h"
#include "model/decoder.h"

namespace ebb::model {

using kernels::AttentionShape;
using kernels::ConstView;
using kernels::LayerNorm;
using kernels::MatmulOptions;
using kernels::View;

namespace {

struct MatrixShape {
  std::int64_t rows, cols;
};
MatrixShape stored(const LinearPlace& place, bool in_by_out) {
  return in_by_out ? MatrixShape{place.in, place.out} : MatrixShape{place.out, place.in};
}

}  // namespace

View Decoder::activation(std::byte* data, std::int64_t rows, std::int64_t cols) const {
  return {data, dtype_, rows, cols, cols};
}
ConstView Decoder::activation(const std::byte* data, std::int64_t rows, std::int64_t cols) const {
  return {data, dtype_, rows, cols, cols};
}
View Decoder::carve(Carver& carver, std::int64_t rows, std::int64_t cols) const {
  return activation(carver.take(rows * cols * size_of(dtype_)), rows, cols);
}
ConstView Decoder::table(const std::byte* weights) const {
  return activation(weights, config_.vocabulary, config_.hidden);
}

kernels::Product Decoder::linear_product(const std::byte* weights, const LinearPlace& place, View y,
                                         ConstView x, const void* addend) const {
  const auto [rows, cols] = stored(place, config_.weights_in_by_out);
  return {y,
          x,
          activation(at(weights, place.weight), rows, cols),
          {.transpose_b = !config_.weights_in_by_out,
           .bias = at(weights, place.bias),
           .addend = addend}};
}

void Decoder::linear(ModelOps& ops, const BlockWeights& weights, const LinearPlace& place, View y,
                     ConstView x, const void* addend) const {
  if (weights.layout != nullptr) return stored_linear(ops, weights, place, y, x, addend);
  ops.matmul(linear_product(weights.data, place, y, x, addend));
}

void Decoder::stored_linear(ModelOps& ops, const BlockWeights& weights, const LinearPlace& place,
                            View y, ConstView x, const void* addend) const {
  std::int64_t column = 0;
  while (column < place.out) {
    const std::int64_t first = place.weight + column * place.in;
    const StoredRun& run = weights.layout->run_of(first);
    const std::int64_t rows =
        std::min(place.out - column, (run.first + run.count - first) / place.in);
    const View part = columns(y, column, rows);
    const std::int64_t bias = place.bias == kNowhere ? kNowhere : place.bias + column;
    const auto offset = addend == nullptr ? 0 : column * size_of(y.type);
    ops.linear(
        part, x, {at(weights, first), run.type, rows, place.in},
        {.bias = at(weights, bias),
         .addend = addend == nullptr ? nullptr : static_cast<const std::byte*>(addend) + offset});
    column += rows;
  }
}

kernels::WeightMatrix Decoder::stored_table(const BlockWeights& weights) const {
  return {weights.data + weights.layout->offset_of(0), weights.layout->run_of(0).type,
          config_.vocabulary, config_.hidden};
}

View Decoder::weight_gradient_at(std::byte* gradient, const LinearPlace& place) const {
  const auto [rows, cols] = stored(place, config_.weights_in_by_out);
  return {gradient_at(gradient, place.weight), gradient_type_, rows, cols, cols};
}

void Decoder::weight_gradient(ModelOps& ops, const BackwardMemory& memory, const LinearPlace& place,
                              const LinearGradient& g) const {
  const bool in_by_out = config_.weights_in_by_out;
  ops.matmul(weight_gradient_at(memory.gradient, place), in_by_out ? g.x : g.dy,
             in_by_out ? g.dy : g.x, {.transpose_a = true});
  if (place.bias != kNowhere) {
    ops.column_sums(gradient_at(memory.gradient, place.bias), gradient_type_, g.dy);
  }
}

kernels::Product Decoder::input_gradient(const BackwardMemory& memory, const LinearPlace& place,
                                         const LinearGradient& g) const {
  const auto [rows, cols] = stored(place, config_.weights_in_by_out);
  return {g.dx,
          g.dy,
          activation(at(memory.weights, place.weight), rows, cols),
          {.transpose_b = config_.weights_in_by_out, .addend = g.add ? g.dx.data : nullptr}};
}

void Decoder::linear_backward(ModelOps& ops, const BackwardMemory& memory, const LinearPlace& place,
                              const LinearGradient& g) const {
  weight_gradient(ops, memory, place, g);
  ops.matmul(input_gradient(memory, place, g));
}

void Decoder::linears(ModelOps& ops, const BlockWeights& weights,
                      const std::vector<LinearPlace>& places, View y, ConstView x) const {
  std::int64_t column = 0;
  for (const LinearPlace& place : places) {
    linear(ops, weights, place, columns(y, column, place.out), x);
    column += place.out;
  }
}

void Decoder::linears_backward(ModelOps& ops, const BackwardMemory& memory,
                               const std::vector<LinearPlace>& places,
                               const LinearGradient& g) const {
  std::int64_t column = 0;
  for (const LinearPlace& place : places) {
    linear_backward(
        ops, memory, place,
        {.dy = columns(g.dy, column, place.out), .x = g.x, .dx = g.dx, .add = g.add || column > 0});
    column += place.out;
  }
}

void Decoder::norm(ModelOps& ops, const BlockWeights& weights, const NormPlace& place, View y,
                   float* stats, bool given, ConstView x) const {
  ops.norm(y, stats, given, x, at(weights, place.weight), at(weights, place.bias), norm_);
}

void Decoder::norm_backward(ModelOps& ops, const BackwardMemory& memory, const NormPlace& place,
                            ConstView dy, ConstView x, const float* stats) const {
  ops.norm_backward({.dx = activation(memory.residual, x.rows, x.cols),
                     .dweight = gradient_at(memory.gradient, place.weight),
                     .dbias = gradient_at(memory.gradient, place.bias),
                     .type = gradient_type_},
                    dy, x, stats, at(memory.weights, place.weight), norm_);
}

LayerNorm Decoder::head_norm(std::int64_t heads) const {
  LayerNorm norm = norm_;
  norm.groups = heads;
  return norm;
}

void Decoder::rotate(ModelOps& ops, View qk, const float* tables, TokenRange span,
                     bool inverse) const {
  if (config_.positions != Config::Positions::rotary) return;
  ops.rope(qk, tables,
           {.heads = rotated_heads(),
            .head_dim = config_.head_dim,
            .start = span.start,
            .length = span.length,
            .inverse = inverse});
}

void Decoder::normalize_and_rotate(ModelOps& ops, const BlockWeights& weights, View rotated,
                                   ConstView raw, float* stats, bool given, const float* tables,
                                   TokenRange span) const {
  if (config_.qk_norm) {
    const std::int64_t q = config_.query_width(), kv = config_.kv_width();
    const LayerNorm q_norm = head_norm(config_.heads), k_norm = head_norm(config_.kv_heads);
    ops.norm(columns(rotated, 0, q), stats, given, columns(raw, 0, q),
             at(weights, places_.q_norm.weight), at(weights, places_.q_norm.bias), q_norm);
    ops.norm(columns(rotated, q, kv), stats + q_norm.stats(raw.rows), given, columns(raw, q, kv),
             at(weights, places_.k_norm.weight), at(weights, places_.k_norm.bias), k_norm);
  }
  rotate(ops, rotated, tables, span, false);
}

void Decoder::normalize_and_rotate_backward(ModelOps& ops, const BackwardMemory& memory,
                                            View gradient, ConstView raw,
                                            const float* stats) const {
  rotate(ops, gradient, memory.tables, {.start = 0, .length = shape_.sequence}, true);
  if (!config_.qk_norm) return;
  const auto back = [&](std::int64_t first, std::int64_t heads, const NormPlace& place,
                        const float* own) {
    const View part = columns(gradient, first, heads * config_.head_dim);
    ops.norm_backward({.dx = part,
                       .add = false,
                       .dweight = gradient_at(memory.gradient, place.weight),
                       .dbias = gradient_at(memory.gradient, place.bias),
                       .type = gradient_type_},
                      part, columns(raw, first, part.cols), own, at(memory.weights, place.weight),
                      head_norm(heads));
  };
  back(0, config_.heads, places_.q_norm, stats);
  back(config_.query_width(), config_.kv_heads, places_.k_norm,
       stats + head_norm(config_.heads).stats(raw.rows));
}

AttentionShape Decoder::attention_shape(std::int64_t layer, std::int64_t rows, std::int64_t queries,
                                        std::int64_t keys) const {
  return {.batch = rows,
          .queries = queries,
          .keys = keys,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim))),
          .window = config_.window(layer)};
}

float Decoder::embedding_scale() const {
  if (!config_.scaled_embeddings) return 1.0f;
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(config_.hidden)));
  return dtype_ == DType::f32 ? scale : to_float(to_bf16(scale));
}

}  // namespace ebb::model
