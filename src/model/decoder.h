// Forward and backward of a decoder, one block at a time, on memory that others place. Every call
// computes on the lane that makes it, through the ops it is given; with kernels::CountingOps and
// measuring carvers the same code tells what it will cost and how much memory it will want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/model_ops.h"
#include "memory/carver.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/weight_layout.h"

namespace ebb::model {

using kernels::ModelOps;
using memory::Carver;

struct Shape {
  std::int64_t rows = 1;      // sequences in a micro-batch
  std::int64_t sequence = 1;  // tokens of each
  // Tokens that an MLP takes at once at most, where there are more than twice as many. Part of the
  // numerics; another value than this is for tests.
  std::int64_t largest_tile = 16'384;
  std::int64_t tokens() const { return rows * sequence; }
};

// Where the tokens at hand stand: in sequences of `length`, the first token of each at `start`.
struct TokenRange {
  std::int64_t start = 0;
  std::int64_t length = 1;
  std::int64_t rows = 1;  // sequences
  std::int64_t count() const { return rows * length; }
};

// A sequence's keys and values of one block, a row for each position: its keys and behind them its
// values, so that the first positions are the first bytes (Decoder::cache_row_bytes). Rows before
// the tokens at hand are there, theirs are added.
struct KvCache {
  std::byte* rows = nullptr;
};

// Tokens of one sequence among those at hand: `length` of them behind the `start` whose keys and
// values its cache has.
struct SequenceTokens {
  std::int64_t start = 0;
  std::int64_t length = 1;
  KvCache cache{};
};

// The memory of a block's forward. What it is given decides what is kept: training saves for the
// backward, generation keeps keys and values for the tokens to come.
struct ForwardMemory {
  BlockWeights weights{};  // of the block, or of the half that is called
  const float* tables = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Carver* saved = nullptr;  // for what the attention saves; null where no backward follows
  Carver* mlp = nullptr;    // for what the MLP saves; null where the backward makes it again
  Carver* cheap_saved =
      nullptr;  // for what is cheap to make again; null where the backward does that
  const KvCache* cache = nullptr;  // of one sequence; null where it starts with these tokens
};

// Memory that the head reads and writes besides the residual stream.
struct HeadMemory {
  const std::byte* weights = nullptr;    // of the head's block
  const std::byte* embedding = nullptr;  // tied: the embedding's weights
  std::byte* gradient = nullptr;         // of the head's block
  std::byte* tied_sum = nullptr;         // tied: fp32 gradient of the embedding, written whole
  double* loss = nullptr;                // the sum of the tokens' losses
  float scale = 1.0f;                    // of the loss, in the gradients
};

// Memory of the head's gradients with a piece of the vocabulary.
struct HeadPieceMemory {
  const std::byte* table = nullptr;  // the piece's rows
  std::byte* gradient = nullptr;     // of those, where the head has a table of its own
  std::byte* tied_sum = nullptr;     // else their fp32 gradient, for the embedding
  std::byte* dnormed = nullptr;      // what pieces add up to
  float scale = 1.0f;                // of the loss, in the gradients
};

// And of their end.
struct HeadEndMemory {
  const std::byte* norm = nullptr;     // the last norm's parameters
  std::byte* norm_gradient = nullptr;  // and where theirs go
  const std::byte* input = nullptr;
  const std::byte* dnormed = nullptr;
  std::byte* residual = nullptr;  // written whole
};

// The memory of a block's backward.
struct BackwardMemory {
  const std::byte* weights = nullptr;
  const float* tables = nullptr;
  const std::byte* input = nullptr;
  std::byte* residual = nullptr;  // gradient of the output on entry, of the input on return
  std::byte* gradient = nullptr;  // of the block's parameters, written whole
  Carver* mlp = nullptr;          // as in the forward, or in none where it was not run for that
  Carver* cheap_saved = nullptr;
};

class Decoder {
 public:
  // `dtype` is the type of weights and activations, `gradient_type` that of weight gradients. Where
  // blocks are cut into halves, those alone can be called, each with weights of its own.
  Decoder(const Config& config, DType dtype, DType gradient_type, Shape shape,
          BlockCut cut = BlockCut::whole);

  const Config& config() const { return config_; }
  const Shape& shape() const { return shape_; }
  TokenRange micro_batch() const { return {.length = shape_.sequence, .rows = shape_.rows}; }

  Bytes input_bytes() const { return shape_.tokens() * config_.hidden * size_of(dtype_); }
  Bytes tied_sum_bytes() const {
    return config_.tied ? config_.vocabulary * config_.hidden * 4 : 0;
  }
  // Tokens whose gradients of logits exist at once. Part of the numerics: it fixes the order of
  // sums.
  std::int64_t head_slice() const;
  // Tokens of a slice whose fp32 logits exist at once.
  std::int64_t logits_slice() const;
  // Tokens whose MLP is computed at once, the last ones aside: all of them, or of many an even
  // part, so that its memory is bounded. Part of the numerics: it fixes the order of sums.
  std::int64_t mlp_tile() const { return tile_of(shape_.tokens()); }

  // The rotary table: {cos, sin} pairs, head_dim / 2 a position. Empty with learned positions.
  Bytes table_bytes(std::int64_t positions) const;
  // `count` positions of it from `first` on.
  void fill_table(float* table, std::int64_t first, std::int64_t count) const;

  void embed(ModelOps&, const BlockWeights&, std::span<const std::int32_t> ids, TokenRange span,
             std::byte* output) const;
  // The one forward of a block, of any tokens: a micro-batch, a slice of a prompt, one
  // token. With output null, what the backward needs is computed again, the MLP's part aside: the
  // backward makes that.
  void forward(ModelOps&, std::int64_t layer, const TokenRange&, const ForwardMemory&,
               Carver& work) const;
  // What follows is for what no backward follows: generation, of tokens of several sequences, one
  // behind the other in memory. On the CPU the bits of a sequence are those that it has alone:
  // products with stored weights know their own row only (ModelOps::linear), everything else goes
  // by a row or by a sequence, and where products are cut by how many rows they have, sequences are
  // computed one after the other.
  using Sequences = std::span<const SequenceTokens>;
  void embed(ModelOps&, const BlockWeights&, std::span<const std::int32_t> ids, Sequences,
             std::byte* output) const;
  // The forward in two halves: what the attention adds to the residual stream, and what the MLP
  // adds to that. To the bit the same as forward() on the same tokens.
  void forward_attention(ModelOps&, std::int64_t layer, Sequences, const ForwardMemory&,
                         Carver& work) const;
  void forward_mlp(ModelOps&, Sequences, const ForwardMemory&, Carver& work) const;
  // Logits (fp32) of the last token of each sequence, a row each.
  void logits(ModelOps&, const BlockWeights& head, const BlockWeights& embedding,
              const std::byte* input, Sequences, float* out, Carver& work) const;
  // Bytes of a position in a block's cache.
  Bytes cache_row_bytes() const { return 2 * config_.kv_width() * size_of(dtype_); }
  // Loss and gradient of the loss at once, in slices of tokens and in pieces of the vocabulary;
  // writes residual whole.
  void head(ModelOps&, const HeadMemory&, const std::byte* input,
            std::span<const std::int32_t> targets, std::byte* residual, Carver& work) const;
  // The loss alone, with the same bits.
  void loss(ModelOps&, const std::byte* head_weights, const std::byte* embedding,
            const std::byte* input, std::span<const std::int32_t> targets, double* loss,
            Carver& work) const;
  void backward(ModelOps&, std::int64_t layer, const BackwardMemory&, Carver& saved,
                Carver& work) const;
  void embed_backward(ModelOps&, std::span<const std::int32_t> ids, const std::byte* residual,
                      std::byte* tied_sum, std::byte* gradient, Carver& work) const;

  // The embedding and the head with one piece of a vocabulary that has several at a time, so that
  // no more of the table, of its gradient or of the logits must be in memory: to the bit what the
  // functions above give. `table`, `gradient` and `tied_sum` are the piece's.
  const VocabularyPieces& pieces() const { return pieces_; }
  std::int64_t piece_rows(int piece) const;
  // Piece after piece, then the positions where they are learned.
  void embed_piece(ModelOps&, int piece, const std::byte* table, std::span<const std::int32_t> ids,
                   std::byte* output) const;
  void embed_positions(ModelOps&, const std::byte* positions, TokenRange span,
                       std::byte* output) const;
  void embed_piece_backward(ModelOps&, int piece, std::span<const std::int32_t> ids,
                            const std::byte* residual, std::byte* tied_sum, std::byte* gradient,
                            Carver& work) const;
  void positions_backward(ModelOps&, const std::byte* residual, std::byte* gradient) const;
  // The head: the last norm, then the statistics of every piece, which give the loss; then the
  // gradients of every piece in order, and the last norm's. `state` is the same memory for all of
  // them, and so is `dnormed` (fp32, tokens x hidden).
  void head_begin(ModelOps&, const std::byte* norm, const std::byte* input, Carver& state) const;
  void head_statistics(ModelOps&, int piece, const std::byte* table,
                       std::span<const std::int32_t> targets, Carver& state, Carver& work) const;
  void head_loss(ModelOps&, std::span<const std::int32_t> targets, double* loss,
                 Carver& state) const;
  void head_gradients(ModelOps&, int piece, const HeadPieceMemory&,
                      std::span<const std::int32_t> targets, Carver& state, Carver& work) const;
  void head_end(ModelOps&, const HeadEndMemory&, Carver& state) const;
  Bytes dnormed_bytes() const { return shape_.tokens() * config_.hidden * 4; }

 private:
  // Memory that a block's attention saves for its backward, and that the MLP reads.
  struct Saved {
    float* input_stats;
    kernels::View qkv;  // q and k rotated; with qk_norm as they were projected
    float* qk_stats;    // with qk_norm
    kernels::View attended;
    float* log_sums;       // null where no backward follows
    kernels::View middle;  // the residual stream between attention and MLP
  };
  // Memory that a block's MLP saves for its backward.
  struct SavedMlp {
    float* stats;      // of the norm, of all tokens
    kernels::View up;  // gate and up, where there is a gate; of a tile where it is not saved
  };
  // What is cheap to make again from both, and kept where there is memory for it: else empty.
  struct CheapSaved {
    kernels::View normed;      // the attention's input
    kernels::View mlp_normed;  // the MLP's
    kernels::View product;     // of the MLP
  };
  // Where nothing is saved, they lie in work; so does the middle, unless it has a place.
  Saved carve_saved(Carver* carver, Carver& work, std::int64_t tokens,
                    std::byte* middle = nullptr) const;
  SavedMlp carve_mlp(Carver* carver, Carver& work, std::int64_t tokens) const;
  CheapSaved carve_cheap_saved(Carver* carver, std::int64_t tokens) const;

  // Tokens that begin their sequences, or, of those that have caches, which ones they are.
  struct AttendedTokens {
    TokenRange range{};
    Sequences cached{};
    std::int64_t count() const;
  };
  void attend(ModelOps&, std::int64_t layer, const AttendedTokens&, const ForwardMemory&,
              const Saved&, const CheapSaved&, Carver& work) const;
  // The rows of the table alone, without learned positions.
  void embed_ids(ModelOps&, const BlockWeights&, std::span<const std::int32_t> ids,
                 std::byte* output) const;
  // Calls run(sequences, their first token) for all of them at once, or for one after the other
  // where products of all would give another's bits.
  template <class Run>
  void for_sequences(Sequences, const BlockWeights&, Run run) const;
  // Puts keys and values of new tokens behind those of `start` before, and returns all of them.
  kernels::ConstView append(ModelOps&, const KvCache& cache, kernels::ConstView keys,
                            kernels::ConstView values, std::int64_t start) const;
  void mlp(ModelOps&, kernels::ConstView middle, const ForwardMemory&, const CheapSaved&,
           Carver& work) const;
  // Gate and up of some tokens; product is written where it has memory. `at_once` allows the
  // activation in the pass of the product, whose bits may then be others.
  void mlp_product(ModelOps&, const BlockWeights&, kernels::View product, kernels::View up,
                   kernels::ConstView normed, bool at_once) const;
  // `shared` is memory for the gradient of a norm's output.
  void attend_backward(ModelOps&, std::int64_t layer, const BackwardMemory&, const Saved&,
                       const CheapSaved&, std::byte* shared, Carver& work) const;
  void mlp_backward(ModelOps&, const BackwardMemory&, const Saved&, const CheapSaved&,
                    std::byte* shared, Carver& work) const;

  // Views of memory in the types that belong there.
  kernels::View activation(std::byte* data, std::int64_t rows, std::int64_t cols) const;
  kernels::ConstView activation(const std::byte* data, std::int64_t rows, std::int64_t cols) const;
  kernels::View carve(Carver& carver, std::int64_t rows, std::int64_t cols) const;
  kernels::ConstView table(const std::byte* weights) const;  // a row a token
  kernels::ConstView piece_of_table(kernels::ConstView table, int piece) const;

  // Logits, or their gradients, of so many tokens: in pieces of the vocabulary, each with a stride
  // of its own, so that products with one piece are the same whether the others are there or not.
  kernels::Pieces carve_logits(Carver& carver, DType type, std::int64_t rows) const;
  kernels::View carve_piece(Carver& carver, DType type, std::int64_t rows, int piece) const;
  struct HeadState;
  HeadState carve_head(Carver& carver) const;
  // Calls visit(first, count) for the slices whose logits exist at once.
  template <class Visit>
  void for_logits_slices(Visit visit) const;
  const std::byte* at(const BlockWeights& block, std::int64_t place) const {
    if (place == kNowhere) return nullptr;
    return block.data +
           (block.layout == nullptr ? place * size_of(dtype_) : block.layout->offset_of(place));
  }
  std::byte* gradient_at(std::byte* block, std::int64_t place) const {
    return place == kNowhere ? nullptr : block + place * size_of(gradient_type_);
  }

  // y = x W^T + b (+ addend), with W as the layer has it in memory.
  kernels::Product linear_product(const std::byte* weights, const LinearPlace&, kernels::View y,
                                  kernels::ConstView x, const void* addend = nullptr) const;
  void linear(ModelOps& ops, const BlockWeights&, const LinearPlace& place, kernels::View y,
              kernels::ConstView x, const void* addend = nullptr) const;
  // The same with weights as they are stored, run by run.
  void stored_linear(ModelOps& ops, const BlockWeights&, const LinearPlace& place, kernels::View y,
                     kernels::ConstView x, const void* addend) const;
  kernels::WeightMatrix stored_table(const BlockWeights&) const;
  struct LinearGradient {
    kernels::ConstView dy, x = {};
    kernels::View dx = {};
    bool add = false;  // to dx
  };
  // The gradients of W and b from dy and x, and that of x from dy alone.
  void weight_gradient(ModelOps&, const BackwardMemory&, const LinearPlace&,
                       const LinearGradient&) const;
  // The same over tiles of tokens, of which there are several: fp32 sums over them in their order,
  // rounded once.
  struct TileSum {
    kernels::View weight;  // the gradient itself, where that is fp32
    kernels::View bias;    // a row a tile
  };
  TileSum carve_tile_sum(const BackwardMemory&, const LinearPlace&, Carver& work) const;
  void add_tile(ModelOps&, const LinearPlace&, const LinearGradient&, const TileSum&,
                std::int64_t tile) const;
  void finish_tiles(ModelOps&, const BackwardMemory&, const LinearPlace&, const TileSum&) const;
  kernels::View weight_gradient_at(std::byte* gradient, const LinearPlace&) const;
  std::int64_t tile_of(std::int64_t tokens) const;
  std::int64_t mlp_tiles() const;
  kernels::Product input_gradient(const BackwardMemory&, const LinearPlace&,
                                  const LinearGradient&) const;
  void linear_backward(ModelOps&, const BackwardMemory&, const LinearPlace&,
                       const LinearGradient&) const;
  // Layers that share their input: their outputs lie side by side.
  void linears(ModelOps&, const BlockWeights&, const std::vector<LinearPlace>&, kernels::View y,
               kernels::ConstView x) const;
  void linears_backward(ModelOps&, const BackwardMemory&, const std::vector<LinearPlace>&,
                        const LinearGradient&) const;

  void norm(ModelOps&, const BlockWeights&, const NormPlace&, kernels::View y, float* stats,
            bool given, kernels::ConstView x) const;
  void norm_backward(ModelOps&, const BackwardMemory&, const NormPlace&, kernels::ConstView dy,
                     kernels::ConstView x, const float* stats) const;

  // The queries and keys of a projection: normalised by heads (with qk_norm), then rotated, from
  // `raw` to `rotated`, which may be the same memory.
  void normalize_and_rotate(ModelOps&, const BlockWeights&, kernels::View rotated,
                            kernels::ConstView raw, float* stats, bool given, const float* tables,
                            TokenRange span) const;
  // Turns their gradient into that of the projection, in place.
  void normalize_and_rotate_backward(ModelOps&, const BackwardMemory&, kernels::View gradient,
                                     kernels::ConstView raw, const float* stats) const;
  void rotate(ModelOps&, kernels::View qk, const float* tables, TokenRange span,
              bool inverse) const;
  kernels::LayerNorm head_norm(std::int64_t heads) const;
  std::int64_t rotated_width() const { return config_.query_width() + config_.kv_width(); }
  std::int64_t rotated_heads() const { return config_.heads + config_.kv_heads; }

  kernels::AttentionShape attention_shape(std::int64_t layer, std::int64_t rows,
                                          std::int64_t queries, std::int64_t keys) const;
  float embedding_scale() const;

  Config config_;
  DType dtype_;
  DType gradient_type_;
  Shape shape_;
  BlockPlaces places_;
  VocabularyPieces pieces_;
  kernels::LayerNorm norm_;
};

}  // namespace ebb::model
