// The head. In training its logits exist for some tokens at a time, and its products go by pieces
// of the vocabulary: all pieces of a slice of tokens, or all slices of tokens of a piece, with the
// same products in the same order for every sum.
#include <algorithm>

#include "base/to_size.h"
#include "kernels/views.h"
#include "model/decoder.h"

namespace ebb::model {

using kernels::ConstPieces;
using kernels::ConstView;
using kernels::piece_of;
using kernels::Pieces;
using kernels::RowStatistic;
using kernels::View;

namespace {

// Tokens whose rows of the vocabulary take at most `bytes`: a multiple of 64.
std::int64_t tokens_within(Bytes bytes, Bytes row) {
  return std::max<std::int64_t>(64, bytes / row / 64 * 64);
}

Pieces rows_in_pieces(Pieces pieces, std::int64_t first, std::int64_t count) {
  pieces.first = kernels::rows_of(pieces.first, first, count);
  return pieces;
}
ConstPieces to_read(const Pieces& pieces) { return {pieces.first, pieces.cols, pieces.distance}; }

std::span<const std::int32_t> part_of(std::span<const std::int32_t> targets, std::int64_t first,
                                      std::int64_t count) {
  return targets.subspan(to_size(first), to_size(count));
}

}  // namespace

// State of the head from its first piece to its last.
struct Decoder::HeadState {
  float* stats;              // of the last norm
  View normed;               // its output, for all tokens
  RowStatistic* statistics;  // of the pieces, one after the other
  float* losses;
  std::int64_t tokens;
  VocabularyPieces pieces;

  kernels::RowStatistics of_rows(std::int64_t first) const {
    return {statistics + first, tokens, pieces.count, pieces.rows};
  }
};

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

// Slices of slices: every product of logits has as many rows, wherever it is made.
template <class Visit>
void Decoder::for_logits_slices(Visit visit) const {
  for (std::int64_t slice = 0; slice < shape_.tokens(); slice += head_slice()) {
    const std::int64_t end = std::min(slice + head_slice(), shape_.tokens());
    for (std::int64_t first = slice; first < end; first += logits_slice()) {
      visit(first, std::min(logits_slice(), end - first));
    }
  }
}

ConstView Decoder::piece_of_table(ConstView table, int piece) const {
  return kernels::rows_of(table, pieces_.first(piece), piece_rows(piece));
}

Pieces Decoder::carve_logits(Carver& carver, DType type, std::int64_t rows) const {
  const std::int64_t distance = rows * pieces_.rows;
  std::byte* data = carver.take(pieces_.count * distance * size_of(type));
  return {{data, type, rows, pieces_.rows, pieces_.rows}, config_.vocabulary, distance};
}

View Decoder::carve_piece(Carver& carver, DType type, std::int64_t rows, int piece) const {
  return {carver.take(rows * pieces_.rows * size_of(type)), type, rows, piece_rows(piece),
          pieces_.rows};
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
  const Pieces dlogits = carve_logits(work, dtype_, slice);
  // In fp32 the logits take the memory of their gradients.
  const bool shared = dtype_ == DType::f32;
  const Pieces logits = shared ? Pieces{} : carve_logits(work, DType::f32, some_most);
  std::byte* sum_data = config_.tied ? memory.tied_sum : work.take(vocabulary * hidden * 4);
  const View sum{sum_data, DType::f32, vocabulary, hidden, hidden};
  // What pieces add up to is rounded once.
  const bool adds = pieces_.count > 1 && !shared;
  const View wide{adds ? work.take(slice * hidden * 4) : nullptr, DType::f32, slice, hidden,
                  hidden};

  const ConstView x = activation(input, tokens, hidden);
  for (std::int64_t first = 0; first < tokens; first += slice) {
    const std::int64_t count = std::min(slice, tokens - first);
    const View part = rows_of(normed, 0, count);
    norm(ops, memory.weights, last_norm, part, stats + norm_.stats(first), false,
         rows_of(x, first, count));
    // Logits need fewer tokens than their gradients for products at full speed.
    for (std::int64_t at = 0; at < count; at += some_most) {
      const std::int64_t some = std::min(some_most, count - at);
      const Pieces gradients = rows_in_pieces(dlogits, at, some);
      const Pieces own = shared ? gradients : rows_in_pieces(logits, 0, some);
      for (int p = 0; p < pieces_.count; ++p) {
        ops.matmul(piece_of(own, p), rows_of(part, at, some), piece_of_table(words, p),
                   {.transpose_b = true});
      }
      ops.cross_entropy(gradients, losses + first + at, to_read(own),
                        part_of(targets, first + at, some), memory.scale);
    }
    const View to = rows_of(dnormed, first, count);
    const View gathered = adds ? rows_of(wide, 0, count) : to;
    for (int p = 0; p < pieces_.count; ++p) {
      const View gradients = rows_of(piece_of(dlogits, p), 0, count);
      const View own_sum = rows_of(sum, pieces_.first(p), piece_rows(p));
      ops.matmul(own_sum, gradients, part,
                 {.transpose_a = true, .addend = first > 0 ? own_sum.data : nullptr});
      ops.matmul(gathered, gradients, piece_of_table(words, p),
                 {.addend = p > 0 ? gathered.data : nullptr});
    }
    if (adds) ops.convert(to, gathered);
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
  const Pieces logits = carve_logits(work, DType::f32, most);
  // Of one piece the gradients are made as well: they go where the head has them, as another kind
  // of memory would make other bits.
  const bool one = pieces_.count == 1;
  const Pieces dlogits = !one || dtype_ == DType::f32 ? logits : carve_logits(work, dtype_, most);
  auto* statistics = one ? nullptr : work.take_as<RowStatistic>(pieces_.count * most);
  const ConstView x = activation(input, tokens, config_.hidden);
  for_logits_slices([&](std::int64_t first, std::int64_t count) {
    const View part = rows_of(normed, 0, count);
    const Pieces own = rows_in_pieces(logits, 0, count);
    const auto its_targets = part_of(targets, first, count);
    norm(ops, head_weights, head_norm_place(config_), part, stats + norm_.stats(first), false,
         rows_of(x, first, count));
    for (int p = 0; p < pieces_.count; ++p) {
      ops.matmul(piece_of(own, p), part, piece_of_table(words, p), {.transpose_b = true});
    }
    if (one) {
      ops.cross_entropy(rows_in_pieces(dlogits, 0, count), losses + first, to_read(own),
                        its_targets, 1.0f);
      return;
    }
    for (int p = 0; p < pieces_.count; ++p) {
      ops.row_statistics(statistics + p * most, {piece_of(own, p), pieces_.first(p)}, its_targets,
                         dtype_);
    }
    ops.row_losses(losses + first, {statistics, most, pieces_.count, pieces_.rows}, its_targets,
                   dtype_);
  });
  ops.sum(loss, losses, tokens);
}

void Decoder::logits(ModelOps& ops, const BlockWeights& head, const BlockWeights& embedding,
                     const std::byte* input, Sequences sequences, float* out, Carver& work) const {
  const auto rows = static_cast<std::int64_t>(sequences.size());
  float* stats = work.take_as<float>(norm_.stats(1));
  const View normed = carve(work, rows, config_.hidden);
  std::int64_t row = 0;
  for (const SequenceTokens& each : sequences) {
    const std::byte* last = input + (each.length - 1) * config_.hidden * size_of(dtype_);
    norm(ops, head, head_norm_place(config_), rows_of(normed, row++, 1), stats, false,
         activation(last, 1, config_.hidden));
    input += each.length * config_.hidden * size_of(dtype_);
  }
  const BlockWeights& words = config_.tied ? embedding : head;
  const View to{out, DType::f32, rows, config_.vocabulary, config_.vocabulary};
  if (words.layout != nullptr) return ops.linear(to, normed, stored_table(words));
  for (row = 0; row < rows; ++row) {
    ops.matmul(rows_of(to, row, 1), rows_of(normed, row, 1), table(words.data),
               {.transpose_b = true});
  }
}

Decoder::HeadState Decoder::carve_head(Carver& carver) const {
  const std::int64_t tokens = shape_.tokens();
  return {.stats = carver.take_as<float>(norm_.stats(tokens)),
          .normed = carve(carver, tokens, config_.hidden),
          .statistics = carver.take_as<RowStatistic>(pieces_.count * tokens),
          .losses = carver.take_as<float>(tokens),
          .tokens = tokens,
          .pieces = pieces_};
}

void Decoder::head_begin(ModelOps& ops, const std::byte* norm_weights, const std::byte* input,
                         Carver& state_memory) const {
  const HeadState state = carve_head(state_memory);
  const ConstView x = activation(input, state.tokens, config_.hidden);
  for (std::int64_t first = 0; first < state.tokens; first += head_slice()) {
    const std::int64_t count = std::min(head_slice(), state.tokens - first);
    norm(ops, norm_weights, last_norm_alone(config_), rows_of(state.normed, first, count),
         state.stats + norm_.stats(first), false, rows_of(x, first, count));
  }
}

void Decoder::head_statistics(ModelOps& ops, int piece, const std::byte* table,
                              std::span<const std::int32_t> targets, Carver& state_memory,
                              Carver& work) const {
  const HeadState state = carve_head(state_memory);
  const ConstView words = activation(table, piece_rows(piece), config_.hidden);
  const View logits = carve_piece(work, DType::f32, logits_slice(), piece);
  for_logits_slices([&](std::int64_t first, std::int64_t count) {
    const View own = rows_of(logits, 0, count);
    ops.matmul(own, rows_of(state.normed, first, count), words, {.transpose_b = true});
    ops.row_statistics(state.statistics + piece * state.tokens + first, {own, pieces_.first(piece)},
                       part_of(targets, first, count), dtype_);
  });
}

void Decoder::head_loss(ModelOps& ops, std::span<const std::int32_t> targets, double* loss,
                        Carver& state_memory) const {
  const HeadState state = carve_head(state_memory);
  ops.row_losses(state.losses, state.of_rows(0), targets, dtype_);
  ops.sum(loss, state.losses, state.tokens);
}

void Decoder::head_gradients(ModelOps& ops, int piece, const HeadPieceMemory& memory,
                             std::span<const std::int32_t> targets, Carver& state_memory,
                             Carver& work) const {
  const HeadState state = carve_head(state_memory);
  const std::int64_t hidden = config_.hidden, rows = piece_rows(piece);
  const std::int64_t slice = head_slice(), some_most = logits_slice();
  const ConstView words = activation(memory.table, rows, hidden);
  const View dnormed{memory.dnormed, DType::f32, state.tokens, hidden, hidden};
  const View dlogits = carve_piece(work, dtype_, slice, piece);
  const bool shared = dtype_ == DType::f32;
  const View logits = shared ? View{} : carve_piece(work, DType::f32, some_most, piece);
  std::byte* sum_data = config_.tied ? memory.tied_sum : work.take(rows * hidden * 4);
  const View sum{sum_data, DType::f32, rows, hidden, hidden};
  for (std::int64_t first = 0; first < state.tokens; first += slice) {
    const std::int64_t count = std::min(slice, state.tokens - first);
    const View part = rows_of(state.normed, first, count);
    for (std::int64_t at = 0; at < count; at += some_most) {
      const std::int64_t some = std::min(some_most, count - at);
      const View gradients = rows_of(dlogits, at, some);
      const View own = shared ? gradients : rows_of(logits, 0, some);
      ops.matmul(own, rows_of(part, at, some), words, {.transpose_b = true});
      ops.row_gradients(gradients, {own, pieces_.first(piece)}, state.of_rows(first + at),
                        part_of(targets, first + at, some), memory.scale);
    }
    const View gradients = rows_of(dlogits, 0, count);
    const View to = rows_of(dnormed, first, count);
    ops.matmul(sum, gradients, part,
               {.transpose_a = true, .addend = first > 0 ? sum.data : nullptr});
    ops.matmul(to, gradients, words, {.addend = piece > 0 ? to.data : nullptr});
  }
  if (!config_.tied) ops.convert({memory.gradient, gradient_type_, rows, hidden, hidden}, sum);
}

void Decoder::head_end(ModelOps& ops, const HeadEndMemory& memory, Carver& state_memory) const {
  const HeadState state = carve_head(state_memory);
  const std::int64_t hidden = config_.hidden;
  ConstView dnormed{memory.dnormed, DType::f32, state.tokens, hidden, hidden};
  if (dtype_ != DType::f32) {
    // Nobody needs the norm's output any more.
    ops.convert(state.normed, dnormed);
    dnormed = state.normed;
  }
  ops.fill_zero(memory.residual, state.tokens * hidden * size_of(dtype_));
  norm_backward(
      ops, {.weights = memory.norm, .residual = memory.residual, .gradient = memory.norm_gradient},
      last_norm_alone(config_), dnormed, activation(memory.input, state.tokens, hidden),
      state.stats);
}

}  // namespace ebb::model
