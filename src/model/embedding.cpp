// Training: forward and backward of the embedding, whole or a piece of the vocabulary at a time.
#include <algorithm>

#include "kernels/views.h"
#include "model/decoder.h"

namespace ebb::model {

using kernels::ConstView;
using kernels::View;

std::int64_t Decoder::piece_rows(int piece) const {
  return std::min(pieces_.rows, config_.vocabulary - pieces_.first(piece));
}

void Decoder::embed_ids(ModelOps& ops, const BlockWeights& weights,
                        std::span<const std::int32_t> ids, std::byte* output) const {
  const View to = activation(output, static_cast<std::int64_t>(ids.size()), config_.hidden);
  if (weights.layout != nullptr) {
    ops.embed(to, stored_table(weights), ids, embedding_scale(), 0);
  } else {
    ops.embed(to, table(weights.data), ids, embedding_scale());
  }
}

void Decoder::embed(ModelOps& ops, const BlockWeights& weights, std::span<const std::int32_t> ids,
                    Sequences sequences, std::byte* output) const {
  embed_ids(ops, weights, ids, output);
  if (config_.positions != Config::Positions::learned) return;
  for (const SequenceTokens& each : sequences) {
    ops.add_row(activation(output, 1, each.length * config_.hidden),
                at(weights, positions_place(config_) + each.start * config_.hidden));
    output += each.length * config_.hidden * size_of(dtype_);
  }
}

void Decoder::embed(ModelOps& ops, const BlockWeights& weights, std::span<const std::int32_t> ids,
                    TokenRange span, std::byte* output) const {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  embed_ids(ops, weights, ids, output);
  if (config_.positions != Config::Positions::learned) return;
  // The positions of a sequence are one run of their table: sequences as rows.
  ops.add_row(activation(output, tokens / span.length, span.length * config_.hidden),
              at(weights, positions_place(config_) + span.start * config_.hidden));
}

void Decoder::embed_piece(ModelOps& ops, int piece, const std::byte* table,
                          std::span<const std::int32_t> ids, std::byte* output) const {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  ops.embed(activation(output, tokens, config_.hidden),
            activation(table, piece_rows(piece), config_.hidden), ids, embedding_scale(),
            pieces_.first(piece));
}

void Decoder::embed_positions(ModelOps& ops, const std::byte* positions, TokenRange span,
                              std::byte* output) const {
  ops.add_row(activation(output, shape_.tokens() / span.length, span.length * config_.hidden),
              at(positions, span.start * config_.hidden));
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
  positions_backward(ops, residual, gradient_at(gradient, positions_place(config_)));
}

void Decoder::embed_piece_backward(ModelOps& ops, int piece, std::span<const std::int32_t> ids,
                                   const std::byte* residual, std::byte* tied_sum,
                                   std::byte* gradient, Carver& work) const {
  const std::int64_t hidden = config_.hidden, rows = piece_rows(piece);
  const Bytes sum_bytes = rows * hidden * 4;
  std::byte* sum_data = config_.tied ? tied_sum : work.take(sum_bytes);
  if (!config_.tied) ops.fill_zero(sum_data, sum_bytes);
  const View sum{sum_data, DType::f32, rows, hidden, hidden};
  ops.embed_backward(sum, activation(residual, shape_.tokens(), hidden), ids, embedding_scale(),
                     pieces_.first(piece));
  ops.convert({gradient, gradient_type_, rows, hidden, hidden}, sum);
}

void Decoder::positions_backward(ModelOps& ops, const std::byte* residual,
                                 std::byte* gradient) const {
  // Positions behind the end of the sequences get no gradient.
  const std::int64_t used = shape_.sequence * config_.hidden;
  ops.column_sums(gradient, gradient_type_, activation(residual, shape_.rows, used));
  ops.fill_zero(gradient + used * size_of(gradient_type_),
                (config_.max_positions * config_.hidden - used) * size_of(gradient_type_));
}

}  // namespace ebb::model
