#include "model/decoder.h"

#include <algorithm>
#include <cmath>

namespace ebb::model {

using kernels::AttentionShape;
using kernels::ConstView;
using kernels::View;

namespace {

View columns(View view, std::int64_t first, std::int64_t count) {
  view.data = static_cast<std::byte*>(view.data) + first * size_of(view.type);
  view.cols = count;
  return view;
}

template <class V>
V rows_of(V view, std::int64_t first, std::int64_t count) {
  const Bytes skip = first * view.stride * size_of(view.type);
  if constexpr (std::is_same_v<V, View>) {
    view.data = static_cast<std::byte*>(view.data) + skip;
  } else {
    view.data = static_cast<const std::byte*>(view.data) + skip;
  }
  view.rows = count;
  return view;
}

}  // namespace

// What a block keeps for its backward. Norm outputs and the product of gate and up are cheap to
// make again from these.
struct Decoder::Saved {
  float* input_rstd;
  View qkv;  // rotated
  View attended;
  float* log_sums;
  View middle;  // the residual stream between attention and MLP
  float* middle_rstd;
  View gate_up;
};

Decoder::Decoder(const Config& config, DType dtype, DType gradient_type, Shape shape)
    : config_(config),
      dtype_(dtype),
      gradient_type_(gradient_type),
      shape_(shape),
      offsets_(block_offsets(config)) {}

std::int64_t Decoder::head_slice() const {
  constexpr Bytes logits_bytes = 256 * kMiB;
  const std::int64_t fits =
      std::max<std::int64_t>(64, logits_bytes / (4 * config_.vocabulary) / 64 * 64);
  return std::min({shape_.tokens(), fits, std::int64_t{1024}});
}

Bytes Decoder::table_bytes(std::int64_t positions) const {
  return positions * config_.head_dim * 4;
}

void Decoder::fill_table(float* table, std::int64_t first, std::int64_t count) const {
  const std::int64_t half = config_.head_dim / 2;
  for (std::int64_t j = 0; j < half; ++j) {
    const double exponent = 2.0 * static_cast<double>(j) / static_cast<double>(config_.head_dim);
    const double frequency = std::pow(config_.rope_theta, -exponent);
    for (std::int64_t p = 0; p < count; ++p) {
      const double angle = static_cast<double>(first + p) * frequency;
      table[(p * half + j) * 2] = static_cast<float>(std::cos(angle));
      table[(p * half + j) * 2 + 1] = static_cast<float>(std::sin(angle));
    }
  }
}

View Decoder::activation(std::byte* data, std::int64_t rows, std::int64_t cols) const {
  return {data, dtype_, rows, cols, cols};
}
ConstView Decoder::activation(const std::byte* data, std::int64_t rows, std::int64_t cols) const {
  return {data, dtype_, rows, cols, cols};
}
ConstView Decoder::weight(const std::byte* block, std::int64_t first, std::int64_t rows,
                          std::int64_t cols) const {
  return {at(block, first), dtype_, rows, cols, cols};
}
View Decoder::gradient(std::byte* block, std::int64_t first, std::int64_t rows,
                       std::int64_t cols) const {
  return {gradient_at(block, first), gradient_type_, rows, cols, cols};
}

Decoder::Saved Decoder::carve_saved(Carver& carver) const {
  const std::int64_t tokens = shape_.tokens();
  const auto matrix = [&](std::int64_t cols) {
    return activation(carver.take(tokens * cols * size_of(dtype_)), tokens, cols);
  };
  Saved saved{};
  saved.input_rstd = carver.take_as<float>(tokens);
  saved.qkv = matrix(config_.qkv_width());
  saved.attended = matrix(config_.query_width());
  saved.log_sums = carver.take_as<float>(tokens * config_.heads);
  saved.middle = matrix(config_.hidden);
  saved.middle_rstd = carver.take_as<float>(tokens);
  saved.gate_up = matrix(2 * config_.intermediate);
  return saved;
}

AttentionShape Decoder::attention_shape(std::int64_t rows, std::int64_t queries,
                                        std::int64_t keys) const {
  return {.batch = rows,
          .queries = queries,
          .keys = keys,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))};
}

void Decoder::project_qkv(ModelOps& ops, const std::byte* weights, View qkv, ConstView x,
                          const float* tables, std::int64_t start, std::int64_t length) const {
  const auto project = [&](std::int64_t column, std::int64_t width, std::int64_t matrix,
                           std::int64_t bias) {
    ops.matmul(columns(qkv, column, width), x, weight(weights, matrix, width, config_.hidden),
               {.transpose_b = true, .bias = config_.qkv_bias ? at(weights, bias) : nullptr});
  };
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  if (offsets_.qkv_joined) {
    project(0, config_.qkv_width(), offsets_.q, offsets_.q_bias);
  } else {
    project(0, q, offsets_.q, offsets_.q_bias);
    project(q, kv, offsets_.k, offsets_.k_bias);
    project(q + kv, kv, offsets_.v, offsets_.v_bias);
  }
  ops.rope(columns(qkv, 0, q + kv), tables,
           {.heads = config_.heads + config_.kv_heads,
            .head_dim = config_.head_dim,
            .start = start,
            .length = length});
}

void Decoder::project_gate_up(ModelOps& ops, const std::byte* weights, View gate_up,
                              ConstView x) const {
  const std::int64_t width = config_.intermediate;
  if (offsets_.gate_up_joined) {
    ops.matmul(gate_up, x, weight(weights, offsets_.gate, 2 * width, config_.hidden),
               {.transpose_b = true});
    return;
  }
  ops.matmul(columns(gate_up, 0, width), x, weight(weights, offsets_.gate, width, config_.hidden),
             {.transpose_b = true});
  ops.matmul(columns(gate_up, width, width), x, weight(weights, offsets_.up, width, config_.hidden),
             {.transpose_b = true});
}

void Decoder::embed(ModelOps& ops, const std::byte* weights, std::span<const std::int32_t> ids,
                    std::byte* output) const {
  ops.embed(activation(output, static_cast<std::int64_t>(ids.size()), config_.hidden),
            weight(weights, 0, config_.vocabulary, config_.hidden), ids, 1.0f);
}

void Decoder::forward(ModelOps& ops, const std::byte* weights, const float* tables,
                      const std::byte* input, std::byte* output, Carver& saved_memory,
                      Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const Saved saved = carve_saved(saved_memory);
  const ConstView x = activation(input, tokens, config_.hidden);
  const View normed =
      activation(work.take(tokens * config_.hidden * size_of(dtype_)), tokens, config_.hidden);
  const auto epsilon = static_cast<float>(config_.norm_epsilon);

  ops.norm(normed, saved.input_rstd, false, x, at(weights, offsets_.input_norm), nullptr,
           {.epsilon = epsilon});
  project_qkv(ops, weights, saved.qkv, normed, tables, 0, shape_.sequence);
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  ops.attention(saved.attended, saved.log_sums, columns(saved.qkv, 0, q), columns(saved.qkv, q, kv),
                columns(saved.qkv, q + kv, kv),
                attention_shape(shape_.rows, shape_.sequence, shape_.sequence));
  ops.matmul(saved.middle, saved.attended, weight(weights, offsets_.o, config_.hidden, q),
             {.transpose_b = true, .addend = input});

  ops.norm(normed, saved.middle_rstd, false, saved.middle, at(weights, offsets_.post_norm), nullptr,
           {.epsilon = epsilon});
  project_gate_up(ops, weights, saved.gate_up, normed);
  if (output == nullptr) return;
  const View product = activation(work.take(tokens * config_.intermediate * size_of(dtype_)),
                                  tokens, config_.intermediate);
  ops.activate(product, saved.gate_up, kernels::Activation::silu);
  ops.matmul(activation(output, tokens, config_.hidden), product,
             weight(weights, offsets_.down, config_.hidden, config_.intermediate),
             {.transpose_b = true, .addend = saved.middle.data});
}

void Decoder::head(ModelOps& ops, const HeadMemory& memory, const std::byte* input,
                   std::span<const std::int32_t> targets, std::byte* residual, Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t hidden = config_.hidden;
  const std::int64_t vocabulary = config_.vocabulary;
  const std::int64_t slice = head_slice();
  const Bytes element = size_of(dtype_);
  const std::int64_t norm_first = config_.tied ? 0 : block_length(vocabulary * hidden);
  const std::byte* norm_weight = at(memory.weights, norm_first);
  const ConstView table =
      weight(config_.tied ? memory.embedding : memory.weights, 0, vocabulary, hidden);

  float* rstd = work.take_as<float>(tokens);
  float* losses = work.take_as<float>(tokens);
  const View dnormed = activation(work.take(tokens * hidden * element), tokens, hidden);
  const View normed = activation(work.take(slice * hidden * element), slice, hidden);
  const View logits{work.take(slice * vocabulary * 4), DType::f32, slice, vocabulary, vocabulary};
  const View dlogits = dtype_ == DType::f32
                           ? logits
                           : activation(work.take(slice * vocabulary * element), slice, vocabulary);
  std::byte* sum_data = config_.tied ? memory.tied_sum : work.take(vocabulary * hidden * 4);
  const View sum{sum_data, DType::f32, vocabulary, hidden, hidden};

  const ConstView x = activation(input, tokens, hidden);
  for (std::int64_t first = 0; first < tokens; first += slice) {
    const std::int64_t count = std::min(slice, tokens - first);
    const View part = rows_of(normed, 0, count);
    ops.norm(part, rstd + first, false, rows_of(x, first, count), norm_weight, nullptr,
             {.epsilon = static_cast<float>(config_.norm_epsilon)});
    ops.matmul(rows_of(logits, 0, count), part, table, {.transpose_b = true});
    ops.cross_entropy(
        rows_of(dlogits, 0, count), losses + first, rows_of(logits, 0, count),
        targets.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        memory.scale);
    ops.matmul(sum, rows_of(dlogits, 0, count), part,
               {.transpose_a = true, .addend = first > 0 ? sum.data : nullptr});
    ops.matmul(rows_of(dnormed, first, count), rows_of(dlogits, 0, count), table);
  }
  ops.sum(memory.loss, losses, tokens);
  const View dx = activation(residual, tokens, hidden);
  ops.fill_zero(residual, tokens * hidden * element);
  ops.norm_backward(
      {.dx = dx, .dweight = gradient_at(memory.gradient, norm_first), .type = gradient_type_},
      dnormed, x, rstd, norm_weight, {});
  if (!config_.tied) ops.convert(gradient(memory.gradient, 0, vocabulary, hidden), sum);
}

void Decoder::backward(ModelOps& ops, const BackwardMemory& memory, Carver& saved_memory,
                       Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t hidden = config_.hidden;
  const std::int64_t width = config_.intermediate;
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const Saved saved = carve_saved(saved_memory);
  const auto matrix = [&](std::int64_t cols) {
    return activation(work.take(tokens * cols * size_of(dtype_)), tokens, cols);
  };
  const ConstView x = activation(memory.input, tokens, hidden);
  const View dx = activation(memory.residual, tokens, hidden);
  const auto epsilon = static_cast<float>(config_.norm_epsilon);
  const std::byte* weights = memory.weights;
  const auto grad = [&](std::int64_t first, std::int64_t rows, std::int64_t cols) {
    return gradient(memory.gradient, first, rows, cols);
  };
  // dW = dy^T x
  const auto weight_gradient = [&](View dw, ConstView dy, ConstView in) {
    ops.matmul(dw, dy, in, {.transpose_a = true});
  };
  const View normed = matrix(hidden);
  const View dnormed = matrix(hidden);

  // The MLP.
  const View product = matrix(width);  // then its gradient
  ops.activate(product, saved.gate_up, kernels::Activation::silu);
  weight_gradient(grad(offsets_.down, hidden, width), dx, product);
  ops.matmul(product, dx, weight(weights, offsets_.down, hidden, width));
  ops.activate_backward(saved.gate_up, product, saved.gate_up, kernels::Activation::silu);
  const View dgate_up = saved.gate_up;
  ops.norm(normed, saved.middle_rstd, true, saved.middle, at(weights, offsets_.post_norm), nullptr,
           {.epsilon = epsilon});
  if (offsets_.gate_up_joined) {
    weight_gradient(grad(offsets_.gate, 2 * width, hidden), dgate_up, normed);
    ops.matmul(dnormed, dgate_up, weight(weights, offsets_.gate, 2 * width, hidden));
  } else {
    const View dgate = columns(dgate_up, 0, width);
    const View dup = columns(dgate_up, width, width);
    weight_gradient(grad(offsets_.gate, width, hidden), dgate, normed);
    weight_gradient(grad(offsets_.up, width, hidden), dup, normed);
    ops.matmul(dnormed, dgate, weight(weights, offsets_.gate, width, hidden));
    ops.matmul(dnormed, dup, weight(weights, offsets_.up, width, hidden), {.addend = dnormed.data});
  }
  ops.norm_backward({.dx = dx,
                     .dweight = gradient_at(memory.gradient, offsets_.post_norm),
                     .type = gradient_type_},
                    dnormed, saved.middle, saved.middle_rstd, at(weights, offsets_.post_norm), {});

  // Attention.
  weight_gradient(grad(offsets_.o, hidden, q), dx, saved.attended);
  const View dattended = matrix(q);
  ops.matmul(dattended, dx, weight(weights, offsets_.o, hidden, q));
  const View dqkv = matrix(config_.qkv_width());
  ops.attention_backward(columns(dqkv, 0, q), columns(dqkv, q, kv), columns(dqkv, q + kv, kv),
                         dattended, columns(saved.qkv, 0, q), columns(saved.qkv, q, kv),
                         columns(saved.qkv, q + kv, kv), saved.attended, saved.log_sums,
                         attention_shape(shape_.rows, shape_.sequence, shape_.sequence));
  ops.rope(columns(dqkv, 0, q + kv), memory.tables,
           {.heads = config_.heads + config_.kv_heads,
            .head_dim = config_.head_dim,
            .start = 0,
            .length = shape_.sequence,
            .inverse = true});
  ops.norm(normed, saved.input_rstd, true, x, at(weights, offsets_.input_norm), nullptr,
           {.epsilon = epsilon});
  const auto project_back = [&](std::int64_t column, std::int64_t cols, std::int64_t first,
                                std::int64_t bias, bool add) {
    const View part = columns(dqkv, column, cols);
    weight_gradient(grad(first, cols, hidden), part, normed);
    if (config_.qkv_bias) ops.column_sums(gradient_at(memory.gradient, bias), gradient_type_, part);
    ops.matmul(dnormed, part, weight(weights, first, cols, hidden),
               {.addend = add ? dnormed.data : nullptr});
  };
  if (offsets_.qkv_joined) {
    project_back(0, config_.qkv_width(), offsets_.q, offsets_.q_bias, false);
  } else {
    project_back(0, q, offsets_.q, offsets_.q_bias, false);
    project_back(q, kv, offsets_.k, offsets_.k_bias, true);
    project_back(q + kv, kv, offsets_.v, offsets_.v_bias, true);
  }
  ops.norm_backward({.dx = dx,
                     .dweight = gradient_at(memory.gradient, offsets_.input_norm),
                     .type = gradient_type_},
                    dnormed, x, saved.input_rstd, at(weights, offsets_.input_norm), {});
}

void Decoder::embed_backward(ModelOps& ops, std::span<const std::int32_t> ids,
                             const std::byte* residual, std::byte* tied_sum,
                             std::byte* gradient_data, Carver& work) const {
  const Bytes sum_bytes = config_.vocabulary * config_.hidden * 4;
  std::byte* sum_data = config_.tied ? tied_sum : work.take(sum_bytes);
  if (!config_.tied) ops.fill_zero(sum_data, sum_bytes);
  const View sum{sum_data, DType::f32, config_.vocabulary, config_.hidden, config_.hidden};
  ops.embed_backward(sum, activation(residual, shape_.tokens(), config_.hidden), ids, 1.0f);
  ops.convert(gradient(gradient_data, 0, config_.vocabulary, config_.hidden), sum);
}

}  // namespace ebb::model
