// Training: forward and backward of the embedding, a block and the head.
#include "model/decoder.h"

#include <algorithm>

#include "kernels/views.h"

namespace ebb::model {

using kernels::ConstView;
using kernels::View;

// What a block keeps for its backward.
struct Decoder::Saved {
  float* input_stats;
  View qkv;         // q and k rotated; with qk_norm as they were projected
  float* qk_stats;  // with qk_norm
  View attended;
  float* log_sums;
  View middle;  // the residual stream between attention and MLP
  float* middle_stats;
  View up;  // gate and up, where there is a gate
};

// What is cheap to make again from that, and kept where there is memory for it.
struct Decoder::Kept {
  View normed;         // the attention's input
  View middle_normed;  // the MLP's
  View product;        // of the MLP
};

Decoder::Decoder(const Config& config, DType dtype, DType gradient_type, Shape shape)
    : config_(config),
      dtype_(dtype),
      gradient_type_(gradient_type),
      shape_(shape),
      places_(block_places(config)),
      norm_{.kind = config.norm,
            .epsilon = static_cast<float>(config.norm_epsilon),
            .weight_offset = static_cast<float>(config.norm_offset)} {}

namespace {

// Tokens whose rows of the vocabulary take at most `bytes`: a multiple of 64.
std::int64_t tokens_within(Bytes bytes, Bytes row) {
  return std::max<std::int64_t>(64, bytes / row / 64 * 64);
}

}  // namespace

std::int64_t Decoder::head_slice() const {
  // Two thousand tokens of a vocabulary of 150,000: with fewer, the sum of the table's gradient is
  // read and written so often that memory bounds its products. Twice as many of a large
  // micro-batch, whose other activations are large too.
  const std::int64_t most = std::clamp<std::int64_t>(shape_.tokens() / 4, 2048, 4096);
  const std::int64_t fits = tokens_within(most * (320 << 10), config_.vocabulary * size_of(dtype_));
  return std::min({shape_.tokens(), fits, most});
}

std::int64_t Decoder::logits_slice() const {
  // Five hundred: with fewer, the table itself is read too often.
  const std::int64_t most = std::clamp<std::int64_t>(shape_.tokens() / 16, 512, 1024);
  const std::int64_t fits = tokens_within(most * (640 << 10), config_.vocabulary * 4);
  return std::min({head_slice(), fits, most});
}

Decoder::Saved Decoder::carve_saved(Carver& carver) const {
  const std::int64_t tokens = shape_.tokens();
  Saved saved{};
  saved.input_stats = carver.take_as<float>(norm_.stats(tokens));
  saved.qkv = carve(carver, tokens, config_.qkv_width());
  if (config_.qk_norm) {
    saved.qk_stats = carver.take_as<float>(head_norm(turned_heads()).stats(tokens));
  }
  saved.attended = carve(carver, tokens, config_.query_width());
  saved.log_sums = carver.take_as<float>(tokens * config_.heads);
  saved.middle = carve(carver, tokens, config_.hidden);
  saved.middle_stats = carver.take_as<float>(norm_.stats(tokens));
  saved.up = carve(carver, tokens, config_.up_width());
  return saved;
}

// Where it is made again, norm outputs take turns in the work's memory and the product is the
// caller's.
Decoder::Kept Decoder::carve_kept(Carver* carver, Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  Kept kept;
  kept.normed = carve(carver ? *carver : work, tokens, config_.hidden);
  kept.middle_normed = carver ? carve(*carver, tokens, config_.hidden) : kept.normed;
  if (carver) kept.product = carve(*carver, tokens, config_.intermediate);
  return kept;
}

void Decoder::embed(ModelOps& ops, const std::byte* weights, std::span<const std::int32_t> ids,
                    Span span, std::byte* output) const {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  ops.embed(activation(output, tokens, config_.hidden), table(weights), ids, embedding_scale());
  if (config_.positions != Config::Positions::learned) return;
  // The positions of a sequence are one run of their table: sequences as rows.
  ops.add_row(activation(output, tokens / span.length, span.length * config_.hidden),
              at(weights, positions_place(config_) + span.start * config_.hidden));
}

void Decoder::forward(ModelOps& ops, std::int64_t layer, const ForwardMemory& memory,
                      Carver& saved_memory, Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const std::byte* weights = memory.weights;
  const Saved saved = carve_saved(saved_memory);
  const ConstView x = activation(memory.input, tokens, config_.hidden);
  Kept kept = carve_kept(memory.kept, work);

  norm(ops, weights, places_.input_norm, kept.normed, saved.input_stats, false, x);
  linears(ops, weights, places_.qkv, saved.qkv, kept.normed);
  const View raw = columns(saved.qkv, 0, turned_width());
  const View turned = config_.qk_norm ? carve(work, tokens, turned_width()) : raw;
  turn(ops, weights, turned, raw, saved.qk_stats, false, memory.tables,
       {.start = 0, .length = shape_.sequence});
  ops.attention(saved.attended, saved.log_sums, columns(turned, 0, q), columns(turned, q, kv),
                columns(saved.qkv, q + kv, kv),
                attention_shape(layer, shape_.rows, shape_.sequence, shape_.sequence));
  linear(ops, weights, places_.o, saved.middle, saved.attended, memory.input);

  norm(ops, weights, places_.post_norm, kept.middle_normed, saved.middle_stats, false,
       saved.middle);
  const bool stops = memory.output == nullptr;
  if (stops) {
    kept.product = activation(static_cast<std::byte*>(nullptr), tokens, config_.intermediate);
  } else if (memory.kept == nullptr) {
    kept.product = carve(work, tokens, config_.intermediate);
  }
  if (places_.up.size() == 1) {
    ops.product_activate(kept.product,
                         linear_product(weights, places_.up.front(), saved.up, kept.middle_normed),
                         config_.activation);
  } else {
    linears(ops, weights, places_.up, saved.up, kept.middle_normed);
    if (!stops) ops.activate(kept.product, saved.up, config_.activation);
  }
  if (stops) return;
  linear(ops, weights, places_.down, activation(memory.output, tokens, config_.hidden),
         kept.product, saved.middle.data);
}

void Decoder::head(ModelOps& ops, const HeadMemory& memory, const std::byte* input,
                   std::span<const std::int32_t> targets, std::byte* residual, Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t hidden = config_.hidden;
  const std::int64_t vocabulary = config_.vocabulary;
  const std::int64_t slice = head_slice(), some_most = logits_slice();
  const Bytes element = size_of(dtype_);
  const NormPlace last_norm = head_norm_place(config_);
  const ConstView words = table(config_.tied ? memory.embedding : memory.weights);

  float* stats = work.take_as<float>(norm_.stats(tokens));
  float* losses = work.take_as<float>(tokens);
  const View dnormed = carve(work, tokens, hidden);
  const View normed = carve(work, slice, hidden);
  const View dlogits = carve(work, slice, vocabulary);
  // In fp32 the logits take the memory of their gradients.
  const bool shared = dtype_ == DType::f32;
  const View logits{shared ? nullptr : work.take(some_most * vocabulary * 4), DType::f32, some_most,
                    vocabulary, vocabulary};
  std::byte* sum_data = config_.tied ? memory.tied_sum : work.take(vocabulary * hidden * 4);
  const View sum{sum_data, DType::f32, vocabulary, hidden, hidden};

  const ConstView x = activation(input, tokens, hidden);
  for (std::int64_t first = 0; first < tokens; first += slice) {
    const std::int64_t count = std::min(slice, tokens - first);
    const View part = rows_of(normed, 0, count);
    norm(ops, memory.weights, last_norm, part, stats + norm_.stats(first), false,
         rows_of(x, first, count));
    // Logits need fewer tokens than their gradients for products at full speed.
    for (std::int64_t at = 0; at < count; at += some_most) {
      const std::int64_t some = std::min(some_most, count - at);
      const View gradients = rows_of(dlogits, at, some);
      const View own = shared ? gradients : rows_of(logits, 0, some);
      ops.matmul(own, rows_of(part, at, some), words, {.transpose_b = true});
      ops.cross_entropy(
          gradients, losses + first + at, own,
          targets.subspan(static_cast<std::size_t>(first + at), static_cast<std::size_t>(some)),
          memory.scale);
    }
    ops.matmul(sum, rows_of(dlogits, 0, count), part,
               {.transpose_a = true, .addend = first > 0 ? sum.data : nullptr});
    ops.matmul(rows_of(dnormed, first, count), rows_of(dlogits, 0, count), words);
  }
  ops.sum(memory.loss, losses, tokens);
  ops.fill_zero(residual, tokens * hidden * element);
  norm_backward(ops, {.weights = memory.weights, .residual = residual, .gradient = memory.gradient},
                last_norm, dnormed, x, stats);
  if (!config_.tied) {
    ops.convert({memory.gradient, gradient_type_, vocabulary, hidden, hidden}, sum);
  }
}

void Decoder::loss(ModelOps& ops, const std::byte* head_weights, const std::byte* embedding,
                   const std::byte* input, std::span<const std::int32_t> targets, double* loss,
                   Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t most = logits_slice();
  const ConstView words = table(config_.tied ? embedding : head_weights);
  float* stats = work.take_as<float>(norm_.stats(tokens));
  float* losses = work.take_as<float>(tokens);
  const View normed = carve(work, most, config_.hidden);
  const View logits{work.take(most * config_.vocabulary * 4), DType::f32, most, config_.vocabulary,
                    config_.vocabulary};
  // What nobody reads goes where the head has it: another kind of memory would make other bits.
  const View dlogits = dtype_ == DType::f32 ? logits : carve(work, most, config_.vocabulary);
  const ConstView x = activation(input, tokens, config_.hidden);
  // Products of as many rows as the head's, which makes slices of slices.
  for (std::int64_t slice = 0; slice < tokens; slice += head_slice()) {
    const std::int64_t end = std::min(slice + head_slice(), tokens);
    for (std::int64_t first = slice; first < end; first += most) {
      const std::int64_t count = std::min(most, end - first);
      const View part = rows_of(normed, 0, count);
      const View own = rows_of(logits, 0, count);
      norm(ops, head_weights, head_norm_place(config_), part, stats + norm_.stats(first), false,
           rows_of(x, first, count));
      ops.matmul(own, part, words, {.transpose_b = true});
      ops.cross_entropy(
          rows_of(dlogits, 0, count), losses + first, own,
          targets.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), 1.0f);
    }
  }
  ops.sum(loss, losses, tokens);
}

void Decoder::backward(ModelOps& ops, std::int64_t layer, const BackwardMemory& memory,
                       Carver& saved_memory, Carver& work) const {
  const std::int64_t tokens = shape_.tokens();
  const std::int64_t q = config_.query_width();
  const std::int64_t kv = config_.kv_width();
  const std::byte* weights = memory.weights;
  const Saved saved = carve_saved(saved_memory);
  const ConstView x = activation(memory.input, tokens, config_.hidden);
  const View dx = activation(memory.residual, tokens, config_.hidden);
  const View dnormed = carve(work, tokens, config_.hidden);
  const View dproduct = carve(work, tokens, config_.intermediate);
  Kept kept = carve_kept(memory.kept, work);
  const bool again = memory.kept == nullptr;
  if (again) kept.product = dproduct;

  // The MLP. Its product is made again in one pass with the gradient of what it is made of, in the
  // memory of its own gradient.
  const View dup = saved.up;
  ops.product_activate_backward(dup, again ? kept.product : View{},
                                input_gradient(memory, places_.down, {.dy = dx, .dx = dproduct}),
                                saved.up, config_.activation);
  weight_gradient(ops, memory, places_.down, {.dy = dx, .x = kept.product});
  if (again) {
    norm(ops, weights, places_.post_norm, kept.middle_normed, saved.middle_stats, true,
         saved.middle);
  }
  linears_backward(ops, memory, places_.up, {.dy = dup, .x = kept.middle_normed, .dx = dnormed});
  norm_backward(ops, memory, places_.post_norm, dnormed, saved.middle, saved.middle_stats);

  // Attention.
  const View dattended = carve(work, tokens, q);
  linear_backward(ops, memory, places_.o, {.dy = dx, .x = saved.attended, .dx = dattended});
  const View dqkv = carve(work, tokens, config_.qkv_width());
  const View raw = columns(saved.qkv, 0, turned_width());
  View turned = raw;
  if (config_.qk_norm) {
    turned = carve(work, tokens, turned_width());
    turn(ops, weights, turned, raw, saved.qk_stats, true, memory.tables,
         {.start = 0, .length = shape_.sequence});
  }
  ops.attention_backward(columns(dqkv, 0, q), columns(dqkv, q, kv), columns(dqkv, q + kv, kv),
                         dattended, columns(turned, 0, q), columns(turned, q, kv),
                         columns(saved.qkv, q + kv, kv), saved.attended, saved.log_sums,
                         attention_shape(layer, shape_.rows, shape_.sequence, shape_.sequence));
  turn_backward(ops, memory, columns(dqkv, 0, turned_width()), raw, saved.qk_stats);
  if (again) norm(ops, weights, places_.input_norm, kept.normed, saved.input_stats, true, x);
  linears_backward(ops, memory, places_.qkv, {.dy = dqkv, .x = kept.normed, .dx = dnormed});
  norm_backward(ops, memory, places_.input_norm, dnormed, x, saved.input_stats);
}

void Decoder::embed_backward(ModelOps& ops, std::span<const std::int32_t> ids,
                             const std::byte* residual, std::byte* tied_sum, std::byte* gradient,
                             Carver& work) const {
  const std::int64_t hidden = config_.hidden;
  const Bytes sum_bytes = config_.vocabulary * hidden * 4;
  std::byte* sum_data = config_.tied ? tied_sum : work.take(sum_bytes);
  if (!config_.tied) ops.fill_zero(sum_data, sum_bytes);
  const View sum{sum_data, DType::f32, config_.vocabulary, hidden, hidden};
  ops.embed_backward(sum, activation(residual, shape_.tokens(), hidden), ids, embedding_scale());
  ops.convert({gradient, gradient_type_, config_.vocabulary, hidden, hidden}, sum);
  if (config_.positions != Config::Positions::learned) return;
  // Positions behind the end of the sequences get no gradient.
  const std::int64_t used = shape_.sequence * hidden;
  std::byte* positions = gradient_at(gradient, positions_place(config_));
  ops.column_sums(positions, gradient_type_, activation(residual, shape_.rows, used));
  ops.fill_zero(positions + used * size_of(gradient_type_),
                (config_.max_positions * hidden - used) * size_of(gradient_type_));
}

}  // namespace ebb::model
