// Generation: a block's forward on a few new tokens, with the keys and values of those before.
#include "model/decoder.h"

namespace ebb::model {

using kernels::ConstView;
using kernels::View;

void Decoder::decode(ModelOps& ops, const std::byte* weights, const float* tables,
                     const std::byte* input, std::byte* output, std::int64_t count, KvCache cache,
                     Carver& work) const {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const Bytes element = size_of(dtype_);
  const auto matrix = [&](std::int64_t cols) {
    return activation(work.take(count * cols * element), count, cols);
  };
  const auto part = [&](View view, std::int64_t first, std::int64_t cols) {
    return View{static_cast<std::byte*>(view.data) + first * element, view.type, count, cols,
                view.stride};
  };
  const auto epsilon = static_cast<float>(config_.norm_epsilon);
  float* rstd = work.take_as<float>(count);
  const View normed = matrix(hidden);
  const View qkv = matrix(config_.qkv_width());
  const View attended = matrix(q);
  const View middle = matrix(hidden);
  const View gate_up = matrix(2 * config_.intermediate);
  const View product = matrix(config_.intermediate);

  ops.norm(normed, rstd, false, activation(input, count, hidden), at(weights, offsets_.input_norm),
           nullptr, {.epsilon = epsilon});
  project_qkv(ops, weights, qkv, normed, tables, cache.length, count);
  const Bytes behind = cache.length * kv * element;
  ops.convert(activation(cache.keys + behind, count, kv), part(qkv, q, kv));
  ops.convert(activation(cache.values + behind, count, kv), part(qkv, q + kv, kv));
  const std::int64_t keys = cache.length + count;
  ops.attention(attended, nullptr, part(qkv, 0, q), activation(cache.keys, keys, kv),
                activation(cache.values, keys, kv), attention_shape(1, count, keys));
  ops.matmul(middle, attended, weight(weights, offsets_.o, hidden, q),
             {.transpose_b = true, .addend = input});
  ops.norm(normed, rstd, false, middle, at(weights, offsets_.post_norm), nullptr,
           {.epsilon = epsilon});
  project_gate_up(ops, weights, gate_up, normed);
  ops.activate(product, gate_up, kernels::Activation::silu);
  ops.matmul(activation(output, count, hidden), product,
             weight(weights, offsets_.down, hidden, config_.intermediate),
             {.transpose_b = true, .addend = middle.data});
}

void Decoder::logits(ModelOps& ops, const std::byte* head_weights, const std::byte* embedding,
                     const std::byte* input, std::int64_t count, float* out, Carver& work) const {
  const std::int64_t hidden = config_.hidden;
  const std::byte* norm_weight =
      at(head_weights, config_.tied ? 0 : block_length(config_.vocabulary * hidden));
  float* rstd = work.take_as<float>(1);
  const View normed = activation(work.take(hidden * size_of(dtype_)), 1, hidden);
  ops.norm(normed, rstd, false,
           activation(input + (count - 1) * hidden * size_of(dtype_), 1, hidden), norm_weight,
           nullptr, {.epsilon = static_cast<float>(config_.norm_epsilon)});
  ops.matmul({out, DType::f32, 1, config_.vocabulary, config_.vocabulary}, normed,
             weight(config_.tied ? embedding : head_weights, 0, config_.vocabulary, hidden),
             {.transpose_b = true});
}

}  // namespace ebb::model
