// Generation: a block's forward on a few new tokens, with the keys and values of those before.
#include <algorithm>

#include "kernels/views.h"
#include "model/decoder.h"

namespace ebb::model {

using kernels::ConstView;
using kernels::View;

void Decoder::decode(ModelOps& ops, std::int64_t layer, const ForwardMemory& memory,
                     std::int64_t count, KvCache cache, Carver& work) const {
  const std::int64_t hidden = config_.hidden;
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const std::byte* weights = memory.weights;
  float* stats = work.take_as<float>(norm_.stats(count));
  float* qk_stats =
      config_.qk_norm ? work.take_as<float>(head_norm(turned_heads()).stats(count)) : nullptr;
  const View normed = carve(work, count, hidden);
  const View qkv = carve(work, count, config_.qkv_width());
  const View attended = carve(work, count, q);
  const View middle = carve(work, count, hidden);
  const View up = carve(work, count, config_.up_width());
  const View product = carve(work, count, config_.intermediate);

  const ConstView x = activation(memory.input, count, hidden);
  norm(ops, weights, places_.input_norm, normed, stats, false, x);
  linears(ops, weights, places_.qkv, qkv, normed);
  const View turned = columns(qkv, 0, turned_width());
  turn(ops, weights, turned, turned, qk_stats, false, memory.tables,
       {.start = cache.length, .length = count});
  const Bytes behind = cache.length * kv * size_of(dtype_);
  ops.convert(activation(cache.keys + behind, count, kv), columns(qkv, q, kv));
  ops.convert(activation(cache.values + behind, count, kv), columns(qkv, q + kv, kv));
  const std::int64_t keys = cache.length + count;
  ops.attention(attended, nullptr, columns(qkv, 0, q), activation(cache.keys, keys, kv),
                activation(cache.values, keys, kv), attention_shape(layer, 1, count, keys));
  linear(ops, weights, places_.o, middle, attended, memory.input);
  norm(ops, weights, places_.post_norm, normed, stats, false, middle);
  linears(ops, weights, places_.up, up, normed);
  ops.activate(product, up, config_.activation);
  linear(ops, weights, places_.down, activation(memory.output, count, hidden), product,
         middle.data);
}

void Decoder::logits(ModelOps& ops, const std::byte* head_weights, const std::byte* embedding,
                     const std::byte* input, std::int64_t count, float* out, Carver& work) const {
  float* stats = work.take_as<float>(norm_.stats(1));
  const View normed = carve(work, 1, config_.hidden);
  const ConstView last = rows_of(activation(input, count, config_.hidden), count - 1, 1);
  norm(ops, head_weights, head_norm_place(config_), normed, stats, false, last);
  ops.matmul({out, DType::f32, 1, config_.vocabulary, config_.vocabulary}, normed,
             table(config_.tied ? embedding : head_weights), {.transpose_b = true});
}

}  // namespace ebb::model
