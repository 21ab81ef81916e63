// Forward and backward of a block.
#include "model/decoder.h"

#include "kernels/views.h"

namespace ebb::model {

using kernels::ConstView;
using kernels::View;

Decoder::Decoder(const Config& config, DType dtype, DType gradient_type, Shape shape, BlockCut cut)
    : config_(config),
      dtype_(dtype),
      gradient_type_(gradient_type),
      shape_(shape),
      places_(block_places(config, cut)),
      pieces_(vocabulary_pieces(config)),
      norm_{.kind = config.norm,
            .epsilon = static_cast<float>(config.norm_epsilon),
            .weight_offset = static_cast<float>(config.norm_offset)} {}

Decoder::Saved Decoder::carve_saved(Carver* carver, Carver& work, std::int64_t tokens,
                                    std::byte* middle) const {
  Carver& from = carver != nullptr ? *carver : work;
  Saved saved{};
  saved.input_stats = from.take_as<float>(norm_.stats(tokens));
  saved.qkv = carve(from, tokens, config_.qkv_width());
  if (config_.qk_norm) {
    saved.qk_stats = from.take_as<float>(head_norm(rotated_heads()).stats(tokens));
  }
  saved.attended = carve(from, tokens, config_.query_width());
  if (carver != nullptr) saved.log_sums = from.take_as<float>(tokens * config_.heads);
  saved.middle = middle == nullptr ? carve(from, tokens, config_.hidden)
                                   : activation(middle, tokens, config_.hidden);
  return saved;
}

Decoder::CheapSaved Decoder::carve_cheap_saved(Carver* carver, std::int64_t tokens) const {
  if (carver == nullptr) return {};
  CheapSaved cheap_saved;
  cheap_saved.normed = carve(*carver, tokens, config_.hidden);
  cheap_saved.mlp_normed = carve(*carver, tokens, config_.hidden);
  cheap_saved.product = carve(*carver, tokens, config_.intermediate);
  return cheap_saved;
}

void Decoder::forward(ModelOps& ops, std::int64_t layer, const TokenRange& tokens,
                      const ForwardMemory& memory, Carver& work) const {
  const Saved saved = carve_saved(memory.saved, work, tokens.count());
  const CheapSaved cheap_saved = carve_cheap_saved(memory.cheap_saved, tokens.count());
  // The halves take turns in the work's memory.
  Carver first = work, second = work;
  const SequenceTokens cached{tokens.start, tokens.length,
                              memory.cache == nullptr ? KvCache() : *memory.cache};
  const AttendedTokens attended{tokens, {&cached, memory.cache == nullptr ? 0u : 1u}};
  attend(ops, layer, attended, memory, saved, cheap_saved, first);
  if (memory.output != nullptr) mlp(ops, saved.middle, memory, cheap_saved, second);
  work.cover(first);
  work.cover(second);
}

namespace {

std::int64_t count_of(Decoder::Sequences sequences) {
  std::int64_t count = 0;
  for (const SequenceTokens& each : sequences) count += each.length;
  return count;
}

}  // namespace

std::int64_t Decoder::AttendedTokens::count() const {
  return cached.empty() ? range.count() : count_of(cached);
}

// Weights without a layout are multiplied by matmul(), whose tiles go by the number of rows.
template <class Run>
void Decoder::for_sequences(Sequences sequences, const BlockWeights& weights, Run run) const {
  if (weights.layout != nullptr) return run(sequences, 0);
  std::int64_t first = 0;
  for (const SequenceTokens& each : sequences) {
    run({&each, 1}, first);
    first += each.length;
  }
}

void Decoder::forward_attention(ModelOps& ops, std::int64_t layer, Sequences sequences,
                                const ForwardMemory& memory, Carver& work) const {
  const Bytes row = config_.hidden * size_of(dtype_);
  const Carver begin = work;
  for_sequences(sequences, memory.weights, [&](Sequences some, std::int64_t first) {
    ForwardMemory own = memory;
    own.input += first * row;
    own.output += first * row;
    Carver carver = begin;
    const Saved saved = carve_saved(nullptr, carver, count_of(some), own.output);
    attend(ops, layer, {.cached = some}, own, saved, {}, carver);
    work.cover(carver);
  });
}

void Decoder::forward_mlp(ModelOps& ops, Sequences sequences, const ForwardMemory& memory,
                          Carver& work) const {
  const Bytes row = config_.hidden * size_of(dtype_);
  const Carver begin = work;
  for_sequences(sequences, memory.weights, [&](Sequences some, std::int64_t first) {
    ForwardMemory own = memory;
    own.output += first * row;
    Carver carver = begin;
    mlp(ops, activation(memory.input + first * row, count_of(some), config_.hidden), own, {},
        carver);
    work.cover(carver);
  });
}

void Decoder::attend(ModelOps& ops, std::int64_t layer, const AttendedTokens& tokens,
                     const ForwardMemory& memory, const Saved& saved, const CheapSaved& cheap_saved,
                     Carver& work) const {
  const std::int64_t count = tokens.count();
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const BlockWeights& weights = memory.weights;
  const View normed = memory.cheap_saved ? cheap_saved.normed : carve(work, count, config_.hidden);
  norm(ops, weights, places_.input_norm, normed, saved.input_stats, false,
       activation(memory.input, count, config_.hidden));
  linears(ops, weights, places_.qkv, saved.qkv, normed);
  const View raw = columns(saved.qkv, 0, rotated_width());
  // The backward of their norms asks for queries and keys as they were projected.
  const bool apart = config_.qk_norm && memory.saved != nullptr;
  const View rotated = apart ? carve(work, count, rotated_width()) : raw;
  const View queries = columns(rotated, 0, q), keys = columns(rotated, q, kv);
  const View values = columns(saved.qkv, q + kv, kv);
  if (tokens.cached.empty()) {
    const TokenRange& range = tokens.range;
    normalize_and_rotate(ops, weights, rotated, raw, saved.qk_stats, false, memory.tables, range);
    ops.attention(saved.attended, saved.log_sums, queries, keys, values,
                  attention_shape(layer, range.rows, range.length, range.start + range.length));
  }
  std::int64_t first = 0;
  for (const SequenceTokens& each : tokens.cached) {
    const auto own = [&](View view) { return rows_of(view, first, each.length); };
    normalize_and_rotate(ops, weights, own(rotated), own(raw), saved.qk_stats, false, memory.tables,
                         {.start = each.start, .length = each.length});
    const ConstView all = append(ops, each.cache, own(keys), own(values), each.start);
    ops.attention(own(saved.attended), saved.log_sums, own(queries), columns(all, 0, kv),
                  columns(all, kv, kv),
                  attention_shape(layer, 1, each.length, each.start + each.length));
    first += each.length;
  }
  linear(ops, weights, places_.o, saved.middle, saved.attended, memory.input);
}

ConstView Decoder::append(ModelOps& ops, const KvCache& cache, ConstView keys, ConstView values,
                          std::int64_t start) const {
  const std::int64_t kv = config_.kv_width();
  const View all = activation(cache.rows, start + keys.rows, 2 * kv);
  const View added = rows_of(all, start, keys.rows);
  ops.convert(columns(added, 0, kv), keys);
  ops.convert(columns(added, kv, kv), values);
  return all;
}

void Decoder::backward(ModelOps& ops, std::int64_t layer, const BackwardMemory& memory,
                       Carver& saved_memory, Carver& work) const {
  const Saved saved = carve_saved(&saved_memory, work, shape_.tokens());
  const CheapSaved cheap_saved = carve_cheap_saved(memory.cheap_saved, shape_.tokens());
  const std::int64_t widest = std::max(config_.hidden, config_.query_width());
  std::byte* const shared = work.take(shape_.tokens() * widest * size_of(dtype_));
  Carver first = work, second = work;
  mlp_backward(ops, memory, saved, cheap_saved, shared, first);
  attend_backward(ops, layer, memory, saved, cheap_saved, shared, second);
  work.cover(first);
  work.cover(second);
}

void Decoder::attend_backward(ModelOps& ops, std::int64_t layer, const BackwardMemory& memory,
                              const Saved& saved, const CheapSaved& cheap_saved, std::byte* shared,
                              Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const ConstView x = activation(memory.input, tokens, config_.hidden);
  const View dx = activation(memory.residual, tokens, config_.hidden);
  // Done with before the gradient of the norm's output is made in its memory.
  const View dattended = activation(shared, tokens, q);
  const View dnormed = activation(shared, tokens, config_.hidden);
  const View dqkv = carve(work, tokens, config_.qkv_width());

  linear_backward(ops, memory, places_.o, {.dy = dx, .x = saved.attended, .dx = dattended});
  const View raw = columns(saved.qkv, 0, rotated_width());
  View rotated = raw;
  if (config_.qk_norm) {
    rotated = carve(work, tokens, rotated_width());
    normalize_and_rotate(ops, memory.weights, rotated, raw, saved.qk_stats, true, memory.tables,
                         micro_batch());
  }
  ops.attention_backward(columns(dqkv, 0, q), columns(dqkv, q, kv), columns(dqkv, q + kv, kv),
                         dattended, columns(rotated, 0, q), columns(rotated, q, kv),
                         columns(saved.qkv, q + kv, kv), saved.attended, saved.log_sums,
                         attention_shape(layer, shape_.rows, shape_.sequence, shape_.sequence));
  normalize_and_rotate_backward(ops, memory, columns(dqkv, 0, rotated_width()), raw,
                                saved.qk_stats);
  View normed = cheap_saved.normed;
  if (memory.cheap_saved == nullptr) {
    // Nobody reads q, k and v any more.
    normed = config_.qkv_width() >= config_.hidden
                 ? activation(static_cast<std::byte*>(saved.qkv.data), tokens, config_.hidden)
                 : carve(work, tokens, config_.hidden);
    norm(ops, memory.weights, places_.input_norm, normed, saved.input_stats, true, x);
  }
  linears_backward(ops, memory, places_.qkv, {.dy = dqkv, .x = normed, .dx = dnormed});
  norm_backward(ops, memory, places_.input_norm, dnormed, x, saved.input_stats);
}

}  // namespace ebb::model
