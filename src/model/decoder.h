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
  // Tokens whose logits exist at once. Part of the numerics: it fixes the order of sums.
  std::int64_t head_slice() const;

  // The rotary table: {cos, sin} pairs, head_dim / 2 a position.
  Bytes table_bytes(std::int64_t positions) const;
  // `count` positions of it from `first` on.
  void fill_table(float* table, std::int64_t first, std::int64_t count) const;

  void embed(ModelOps&, const std::byte* weights, std::span<const std::int32_t> ids,
             std::byte* output) const;
  // With output null, only what the backward needs is computed again.
  void forward(ModelOps&, const std::byte* weights, const float* tables, const std::byte* input,
               std::byte* output, Carver& saved, Carver& work) const;
  // Loss and gradient of the loss at once, in slices of tokens; writes residual whole.
  void head(ModelOps&, const HeadMemory&, const std::byte* input,
            std::span<const std::int32_t> targets, std::byte* residual, Carver& work) const;
  void backward(ModelOps&, const BackwardMemory&, Carver& saved, Carver& work) const;
  void embed_backward(ModelOps&, std::span<const std::int32_t> ids, const std::byte* residual,
                      std::byte* tied_sum, std::byte* gradient, Carver& work) const;

  // Generation: `count` new tokens of one sequence, which go into the cache.
  void decode(ModelOps&, const std::byte* weights, const float* tables, const std::byte* input,
              std::byte* output, std::int64_t count, KvCache cache, Carver& work) const;
  // Logits (fp32) of the last of `count` tokens.
  void logits(ModelOps&, const std::byte* head_weights, const std::byte* embedding,
              const std::byte* input, std::int64_t count, float* out, Carver& work) const;

 private:
  struct Saved;
  Saved carve_saved(Carver& carver) const;
  kernels::View activation(std::byte* data, std::int64_t rows, std::int64_t cols) const;
  kernels::ConstView activation(const std::byte* data, std::int64_t rows, std::int64_t cols) const;
  kernels::ConstView weight(const std::byte* block, std::int64_t first, std::int64_t rows,
                            std::int64_t cols) const;
  kernels::View gradient(std::byte* block, std::int64_t first, std::int64_t rows,
                         std::int64_t cols) const;
  const std::byte* at(const std::byte* block, std::int64_t first) const {
    return block + first * size_of(dtype_);
  }
  std::byte* gradient_at(std::byte* block, std::int64_t first) const {
    return block + first * size_of(gradient_type_);
  }
  void project_qkv(ModelOps&, const std::byte* weights, kernels::View qkv, kernels::ConstView x,
                   const float* tables, std::int64_t start, std::int64_t length) const;
  void project_gate_up(ModelOps&, const std::byte* weights, kernels::View gate_up,
                       kernels::ConstView x) const;
  kernels::AttentionShape attention_shape(std::int64_t rows, std::int64_t queries,
                                          std::int64_t keys) const;

  Config config_;
  DType dtype_;
  DType gradient_type_;
  Shape shape_;
  BlockOffsets offsets_;
};

}  // namespace ebb::model
