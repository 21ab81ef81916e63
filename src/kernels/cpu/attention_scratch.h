// A slot's memory in attention, forward and backward. `type` is what scores are multiplied in: the
// operands' type, or fp32 where bf16 products are not to be had.
#pragma once

#include "kernels/cpu/attention_tiles.h"

namespace ebb::kernels {

struct ForwardScratch {
  void *q, *k;    // tiles in `type`
  float* v;       // a tile
  float* scores;  // kQueryTile x kKeyTile
  float* out;     // kQueryTile x head_dim
  float *largest, *total;
  void* library;
  Bytes bytes;

  ForwardScratch(std::byte* memory, const AttentionShape& shape, DType type, Bytes library_bytes) {
    ScratchCutter cut(memory);
    q = cut.take(kQueryTile * shape.head_dim * size_of(type));
    k = cut.take(kKeyTile * shape.head_dim * size_of(type));
    v = cut.floats(kKeyTile * shape.head_dim);
    scores = cut.floats(kQueryTile * kKeyTile);
    out = cut.floats(kQueryTile * shape.head_dim);
    largest = cut.floats(kQueryTile);
    total = cut.floats(kQueryTile);
    library = cut.take(library_bytes);
    bytes = cut.taken();
  }
};

// Decoding: the few queries of all heads that share a key head are the rows.
struct DecodeScratch {
  float *scores, *out, *largest, *total;
  Bytes bytes;

  DecodeScratch(std::byte* memory, const AttentionShape& shape) {
    const std::int64_t rows = shape.heads / shape.kv_heads;
    ScratchCutter cut(memory);
    scores = cut.floats(rows * kKeyTile);
    out = cut.floats(rows * shape.head_dim);
    largest = cut.floats(rows);
    total = cut.floats(rows);
    bytes = cut.taken();
  }
};

struct BackwardScratch {
  void *k, *v;                 // a whole head, in `type`
  float *k_wide, *dk, *dv;     // a whole head
  void *q, *dout;              // tiles in `type`
  float *q_wide, *dout_wide;   // tiles
  float *dq, *p, *dp, *delta;  // tiles
  void* library;
  Bytes bytes;

  BackwardScratch(std::byte* memory, const AttentionShape& shape, DType type, Bytes library_bytes) {
    const std::int64_t head = shape.keys * shape.head_dim, tile = kQueryTile * shape.head_dim;
    ScratchCutter cut(memory);
    k = cut.take(head * size_of(type));
    v = cut.take(head * size_of(type));
    q = cut.take(tile * size_of(type));
    dout = cut.take(tile * size_of(type));
    const bool wide = type == DType::f32;
    k_wide = wide ? static_cast<float*>(k) : cut.floats(head);
    q_wide = wide ? static_cast<float*>(q) : cut.floats(tile);
    dout_wide = wide ? static_cast<float*>(dout) : cut.floats(tile);
    dk = cut.floats(head);
    dv = cut.floats(head);
    dq = cut.floats(tile);
    p = cut.floats(kQueryTile * kKeyTile);
    dp = cut.floats(kQueryTile * kKeyTile);
    delta = cut.floats(kQueryTile);
    library = cut.take(library_bytes);
    bytes = cut.taken();
  }
};

}  // namespace ebb::kernels
