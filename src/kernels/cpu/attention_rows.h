// The parts of attention that are not matrix products, on tiles of fp32 scores. A tile covers some
// queries and some keys; row i sees its first `visible + i` columns (none if that is negative, all
// if it is more than there are), and of those the last `window` where there is one.
#pragma once

#include <cstdint>

#include "kernels/cpu/rows.h"

namespace ebb::kernels {

struct ScoreTile {
  float* scores = nullptr;  // rows x cols, row stride `stride`
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  std::int64_t visible = 0;
  float scale = 1.0f;
  std::int64_t window = 0;
};

// A query tile's softmax so far, over the keys seen so far.
struct RunningSoftmax {
  float* largest = nullptr;  // one a row: the largest scaled score, -infinity at first
  float* total = nullptr;    // one a row: the sum of exp(score - largest), 0 at first
  float* out = nullptr;      // rows x head_dim, dense: the sum of exp(score - largest) * value
  std::int64_t head_dim = 0;
};

// Turns scores into exp(scale * score - largest) (0 where not visible), after taking the tile into
// the running softmax: totals and outs are brought to the new largest.
void advance_softmax(const ScoreTile& tile, const RunningSoftmax& softmax);

// out = softmax.out / total, and log_sums (may be null, one a row).
void finish_softmax(Rows out, float* log_sums, const RunningSoftmax& softmax, std::int64_t rows);

// Turns scores into probabilities exp(scale * score - log_sums[i]), 0 where not visible.
void probabilities(const ScoreTile& tile, const float* log_sums);

// dp = p * (dp - delta[i]) * scale: the gradient of the unscaled scores. p is a tile like dp.
void score_gradients(const ScoreTile& dp, const float* p, const float* delta);

// out[i] = the dot product of rows i of a and b.
void row_dots(float* out, ConstRows a, ConstRows b, std::int64_t rows, std::int64_t cols);

// scores[g][t] = q[g] . k[t] for few rows q, and out[g] += sum over t of p[g][t] v[t]: the products
// of decoding, which read k and v once and are bound by that.
void decode_scores(const ScoreTile& tile, ConstRows q, ConstRows k, std::int64_t head_dim);
void decode_values(const ScoreTile& tile, const RunningSoftmax& softmax, ConstRows v);

}  // namespace ebb::kernels
