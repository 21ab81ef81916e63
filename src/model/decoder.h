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

namespace ebb::model {

using kernels::ModelOps;
using memory::Carver;

struct Shape {
  std::int64_t rows = 1;      // sequences in a micro-batch
  std::int64_t sequence = 1;  // tokens of each
  std::int64_t tokens() const { return rows * sequence; }
};

// Where the tokens at hand stand: in sequences of `length`, the first token of each at `start`.
struct Span {
  std::int64_t start = 0;
  std::int64_t length = 1;
};

// The memory of a block's forward.
struct ForwardMemory {
  const std::byte* weights = nullptr;
  const float* tables = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Carver* kept = nullptr;  // for what is cheap to make again; null where the backward does that
};

// What the head reads and writes besides the residual stream.
struct HeadMemory {
  const std::byte* weights = nullptr;    // of the head's block
  const std::byte* embedding = nullptr;  // tied: the embedding's weights
  std::byte* gradient = nullptr;         // of the head's block
  std::byte* tied_sum = nullptr;         // tied: fp32 gradient of the embedding, written whole
  double* loss = nullptr;                // the sum of the tokens' losses
  float scale = 1.0f;                    // of the loss, in the gradients
};

// The memory of a block's backward.
struct BackwardMemory {
  const std::byte* weights = nullptr;
  const float* tables = nullptr;
  const std::byte* input = nullptr;
  std::byte* residual = nullptr;  // gradient of the output on entry, of the input on return
  std::byte* gradient = nullptr;  // of the block's parameters, written whole
  Carver* kept = nullptr;         // as in the forward
};

// A sequence's keys and values of one block, for generation.
struct KvCache {
  std::byte* keys = nullptr;  // max positions x kv width
  std::byte* values = nullptr;
  std::int64_t length = 0;  // positions already there
};

class Decoder {
 public:
  // `dtype` is the type of weights and activations, `gradient_type` that of weight gradients.
  Decoder(const Config& config, DType dtype, DType gradient_type, Shape shape);

  const Config& config() const { return config_; }
  const Shape& shape() const { return shape_; }

  Bytes input_bytes() const { return shape_.tokens() * config_.hidden * size_of(dtype_); }
  Bytes tied_sum_bytes() const {
    return config_.tied ? config_.vocabulary * config_.hidden * 4 : 0;
  }
  // Tokens whose gradients of logits exist at once. Part of the numerics: it fixes the order of
  // sums.
  std::int64_t head_slice() const;
  // Tokens of a slice whose fp32 logits exist at once.
  std::int64_t logits_slice() const;

  // The rotary table: {cos, sin} pairs, head_dim / 2 a position. Empty with learned positions.
  Bytes table_bytes(std::int64_t positions) const;
  // `count` positions of it from `first` on.
  void fill_table(float* table, std::int64_t first, std::int64_t count) const;

  void embed(ModelOps&, const std::byte* weights, std::span<const std::int32_t> ids, Span span,
             std::byte* output) const;
  // With output null, only what the backward needs is computed again.
  void forward(ModelOps&, std::int64_t layer, const ForwardMemory&, Carver& saved,
               Carver& work) const;
  // Loss and gradient of the loss at once, in slices of tokens; writes residual whole.
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

  // Generation: `count` new tokens of one sequence, which go into the cache.
  void decode(ModelOps&, std::int64_t layer, const ForwardMemory&, std::int64_t count,
              KvCache cache, Carver& work) const;
  // Logits (fp32) of the last of `count` tokens.
  void logits(ModelOps&, const std::byte* head_weights, const std::byte* embedding,
              const std::byte* input, std::int64_t count, float* out, Carver& work) const;

 private:
  struct Saved;
  struct Kept;
  Saved carve_saved(Carver& carver) const;
  Kept carve_kept(Carver* carver, Carver& work) const;

  // Views of memory in the types that belong there.
  kernels::View activation(std::byte* data, std::int64_t rows, std::int64_t cols) const;
  kernels::ConstView activation(const std::byte* data, std::int64_t rows, std::int64_t cols) const;
  kernels::View carve(Carver& carver, std::int64_t rows, std::int64_t cols) const;
  kernels::ConstView table(const std::byte* weights) const;  // a row a token
  const std::byte* at(const std::byte* block, std::int64_t place) const {
    return place == kNowhere ? nullptr : block + place * size_of(dtype_);
  }
  std::byte* gradient_at(std::byte* block, std::int64_t place) const {
    return place == kNowhere ? nullptr : block + place * size_of(gradient_type_);
  }

  // y = x W^T + b (+ addend), with W as the layer has it in memory.
  kernels::Product linear_product(const std::byte* weights, const LinearPlace&, kernels::View y,
                                  kernels::ConstView x, const void* addend = nullptr) const;
  void linear(ModelOps& ops, const std::byte* weights, const LinearPlace& place, kernels::View y,
              kernels::ConstView x, const void* addend = nullptr) const {
    ops.matmul(linear_product(weights, place, y, x, addend));
  }
  struct LinearGradient {
    kernels::ConstView dy, x = {};
    kernels::View dx = {};
    bool add = false;  // to dx
  };
  // The gradients of W and b from dy and x, and that of x from dy alone.
  void weight_gradient(ModelOps&, const BackwardMemory&, const LinearPlace&,
                       const LinearGradient&) const;
  kernels::Product input_gradient(const BackwardMemory&, const LinearPlace&,
                                  const LinearGradient&) const;
  void linear_backward(ModelOps&, const BackwardMemory&, const LinearPlace&,
                       const LinearGradient&) const;
  // Layers that share their input: their outputs lie side by side.
  void linears(ModelOps&, const std::byte* weights, const std::vector<LinearPlace>&,
               kernels::View y, kernels::ConstView x) const;
  void linears_backward(ModelOps&, const BackwardMemory&, const std::vector<LinearPlace>&,
                        const LinearGradient&) const;

  void norm(ModelOps&, const std::byte* weights, const NormPlace&, kernels::View y, float* stats,
            bool given, kernels::ConstView x) const;
  void norm_backward(ModelOps&, const BackwardMemory&, const NormPlace&, kernels::ConstView dy,
                     kernels::ConstView x, const float* stats) const;

  // The queries and keys of a projection: normalised by heads (with qk_norm), then rotated, from
  // `raw` to `turned`, which may be the same memory.
  void turn(ModelOps&, const std::byte* weights, kernels::View turned, kernels::ConstView raw,
            float* stats, bool given, const float* tables, Span span) const;
  // In place: from their gradient to that of the projection.
  void turn_backward(ModelOps&, const BackwardMemory&, kernels::View gradient,
                     kernels::ConstView raw, const float* stats) const;
  void rotate(ModelOps&, kernels::View qk, const float* tables, Span span, bool inverse) const;
  kernels::Norm head_norm(std::int64_t heads) const;
  std::int64_t turned_width() const { return config_.query_width() + config_.kv_width(); }
  std::int64_t turned_heads() const { return config_.heads + config_.kv_heads; }

  kernels::AttentionShape attention_shape(std::int64_t layer, std::int64_t rows,
                                          std::int64_t queries, std::int64_t keys) const;
  float embedding_scale() const;

  Config config_;
  DType dtype_;
  DType gradient_type_;
  Shape shape_;
  BlockPlaces places_;
  kernels::Norm norm_;
};

}  // namespace ebb::model
