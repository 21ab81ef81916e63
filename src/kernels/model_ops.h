// The arithmetic of a transformer, on borrowed memory. The kernels room computes on pointers: it
// owns nothing, allocates nothing and knows neither models nor tiers. It serves `model` through
// this interface and `optim` through optimizer_ops.h.
//
// Implementations: reference/ (plain loops, the specification), cpu/ (vectorised, oneDNN), cuda/,
// and described_ops.h, the table of what calls are, for those that do not compute. A library
// (model_library.h) makes them for a task, with the stream and the scratch of the task.
//
// Contract for all of them:
//  - Matrices are row-major; `stride` is elements from one row to the next, at least `cols`.
//  - Element types are f32 or bf16, the same for all operands of a call unless a comment says else.
//    Sums are kept in fp32 or better and rounded once (to nearest even) when stored.
//  - Results depend on shapes and values alone, never on the number of threads.
//  - Calls run in order on the lane that makes them.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/weight_type.h"

namespace ebb::kernels {

struct ConstView {
  const void* data = nullptr;
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

struct View {
  void* data = nullptr;
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  operator ConstView() const { return {data, type, rows, cols, stride}; }
};

// A matrix whose columns lie in memory in pieces, each a matrix of its own with the first one's
// stride: all have the first one's columns but the last, which has what is left. At most
// kMostPieces; one is a plain matrix.
inline constexpr int kMostPieces = 8;
template <class V>
struct InPieces {
  V first;
  std::int64_t cols = 0;      // of all pieces
  std::int64_t distance = 0;  // elements from one piece to the next
  int count() const {
    return cols <= first.cols ? 1 : static_cast<int>((cols + first.cols - 1) / first.cols);
  }
};
using Pieces = InPieces<View>;
using ConstPieces = InPieces<ConstView>;

// Statistic of a piece of a row of logits, from which that of the whole row is made.
struct RowStatistic {
  double total = 0;  // the sum of exponentials of its logits, each less the largest
  float largest = 0;
  float target = 0;  // the logit of the row's target, where that lies in the piece
};
// The statistics of all pieces of some rows: those of a piece row by row, `distance` behind those
// of the piece before.
struct RowStatistics {
  const RowStatistic* first = nullptr;
  std::int64_t distance = 0;
  int pieces = 0;
  std::int64_t columns = 0;  // of a piece
};
// Columns of a long row: a piece of it.
struct RowPiece {
  ConstView logits;
  std::int64_t first = 0;  // where it begins in the row
};

struct MatmulOptions {
  bool transpose_a = false;      // a is stored k x m
  bool transpose_b = false;      // b is stored n x k
  const void* bias = nullptr;    // n elements of c's type, added to every row
  const void* addend = nullptr;  // c's shape, stride and type; may be c itself
};

// What a call of ModelOps::matmul says.
struct Product {
  View c;
  ConstView a, b;
  MatmulOptions options = {};
};

// What is added to a product with stored weights.
struct LinearOptions {
  const void* bias = nullptr;    // weights.rows elements of y's type, added to every row
  const void* addend = nullptr;  // y's shape, stride and type; may be y itself
};

// What a call of ModelOps::linear says. Scratch goes by it, too.
struct Linear {
  View y;
  ConstView x;
  WeightMatrix weights;
  LinearOptions options = {};
};

// Causal attention of `queries` new positions over `keys` positions that end at the same place:
// query i sees keys 0 .. keys - queries + i, of which only the last `window` where there is one.
// Rows are batch-major: row = batch * length + position. Head h reads columns [h * head_dim, (h +
// 1) * head_dim) of its operand; query head h uses key and value head h / (heads / kv_heads).
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  float scale = 1.0f;
  std::int64_t window = 0;  // keys that a query sees, itself included; 0: all before it
};

// How rows are normalised. A row is `groups` runs of cols / groups elements, each normalised by
// itself with the same weight (the heads of a projection); usually it is one.
struct LayerNorm {
  enum class Kind {
    rms,   // stats: rstd
    layer  // the mean is taken off first; stats: mean, rstd
  };
  Kind kind = Kind::rms;
  float epsilon = 1e-6f;
  float weight_offset = 0.0f;  // added to every weight: some files store the distance from 1
  std::int64_t groups = 1;

  // Floats of stats for so many rows: one group after the other, row by row.
  std::int64_t stats(std::int64_t rows) const {
    return rows * groups * (kind == Kind::layer ? 2 : 1);
  }
};

// Where a norm's backward puts the gradients.
struct NormGradients {
  View dx;
  bool add = true;          // dx holds the residual's gradient on entry; else dx may be dy's memory
  void* dweight = nullptr;  // cols / groups elements of `type`
  void* dbias = nullptr;    // null where there is none
  DType type = DType::f32;
};

enum class Activation {
  silu,       // x / (1 + exp(-x))
  gelu,       // x / 2 (1 + erf(x / sqrt(2)))
  gelu_tanh,  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
};

class ModelOps {
 public:
  virtual ~ModelOps() = default;

  // c = op(a) op(b) (+ bias) (+ addend). a and b have one type; c has it too, or is f32. A
  // library's product may be rounded to c's type before the addend comes in.
  virtual void matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) = 0;
  void matmul(View c, ConstView a, ConstView b) { matmul(c, a, b, MatmulOptions{}); }
  void matmul(const Product& p) { matmul(p.c, p.a, p.b, p.options); }

  // y = x W^T (+ bias) (+ addend) with weights as they are stored, for generation. y has x's type
  // or is f32; y and x do not overlap. The arithmetic goes by the type of x:
  //  - f32: weights are widened (reference/weight_blocks.h), everything is fp32.
  //  - bf16, weights in blocks: a row of x becomes 8-bit numbers in blocks of 32 that share an fp32
  //    scale; products are of integers within a block, scales are applied in fp32.
  //  - bf16, plain weights: widened products with sums in fp32.
  // reference/linear.h writes down the order of sums. On the CPU a row of y depends on that row of
  // x and on the weights alone: neighbours, rows and threads change no bit. On CUDA plain weights
  // of x's type go the way of matmul and are as repeatable as that; others are refused with Error.
  virtual void linear(View y, ConstView x, const WeightMatrix& weights,
                      const LinearOptions& options) = 0;
  void linear(View y, ConstView x, const WeightMatrix& weights) {
    linear(y, x, weights, LinearOptions{});
  }
  void linear(const Linear& l) { linear(l.y, l.x, l.weights, l.options); }

  // out[j] = sum over rows of x[i][j]; `type` is out's element type.
  virtual void column_sums(void* out, DType type, ConstView x) = 0;

  // Every row of x gets `row` added: cols elements of x's type.
  virtual void add_row(View x, const void* row) = 0;

  // out[i] = table[ids[i] - first] * scale. The table may be a piece of a longer one: where an id
  // is not in it, out[i] stays as it is.
  virtual void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
                     std::int64_t first) = 0;
  void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale) {
    embed(out, table, ids, scale, 0);
  }
  // The same from stored weights, which are widened to fp32, scaled and rounded once.
  virtual void embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids,
                     float scale, std::int64_t first) = 0;
  // sums[ids[i] - first] += dy[i] * scale in the order of i, for the ids that are in it; sums is
  // f32 with the table's shape. The product is rounded to f32 before it is added.
  virtual void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                              float scale, std::int64_t first) = 0;
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids, float scale) {
    embed_backward(sums, dy, ids, scale, 0);
  }

  // y = (x - mean) * rstd * (weight + weight_offset) + bias, with mean 0 and no bias for Kind::rms;
  // rstd = 1 / sqrt(mean((x - mean)^2) + epsilon). `weight` and `bias` have cols / groups elements
  // of x's type. `stats` are written, or read where they are given. y may be x's memory.
  virtual void norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
                    const void* bias, const LayerNorm& norm) = 0;
  // dweight[j] = the sum over rows and groups of dy * (x - mean) * rstd, dbias[j] that of dy.
  virtual void norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float* stats,
                             const void* weight, const LayerNorm& norm) = 0;

  // Rotates pairs (j, j + head_dim / 2) of each of `heads` heads in place. The row at position p
  // uses table[p][j] = {cos, sin} (f32 pairs, head_dim / 2 of them a position); row i has position
  // start + i % length. `inverse` turns the other way (the gradient).
  struct RopeShape {
    std::int64_t heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t start = 0;
    std::int64_t length = 1;
    bool inverse = false;
  };
  virtual void rope(View x, const float* table, const RopeShape& shape) = 0;

  // out = softmax(scale q k^T, causal) v. log_sums (f32, [batch][heads][queries], may be null) gets
  // the logarithm of each row's sum of exponentials.
  virtual void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                         const AttentionShape& shape) = 0;
  // Training shapes only (queries == keys). Writes dq, dk, dv whole.
  virtual void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q,
                                  ConstView k, ConstView v, ConstView out, const float* log_sums,
                                  const AttentionShape& shape) = 0;

  // h = act(x), where x is as wide as h; where x is twice as wide it is gate and up side by side:
  // h[i][j] = act(x[i][j]) * x[i][F + j], with F = h.cols.
  virtual void activate(View h, ConstView x, Activation activation) = 0;
  // Writes dx, and h as above where it has memory. May run in place: dx may be x's memory, h may be
  // dh's.
  virtual void activate_backward(View dx, View h, ConstView dh, ConstView x,
                                 Activation activation) = 0;
  // Both with a product that is still to be made. x is written, and h where it has memory; it has
  // its shape either way. dh need not be rounded on its way, and what its memory holds afterwards
  // is h where that lies there, else anything.
  virtual void product_activate(View h, const Product& x, Activation activation) {
    matmul(x);
    if (h.data != nullptr) activate(h, x.c, activation);
  }
  virtual void product_activate_backward(View dx, View h, const Product& dh, ConstView x,
                                         Activation activation) {
    matmul(dh);
    activate_backward(dx, h, dh.c, x, activation);
  }

  // For each row: losses[i] = -log softmax(logits[i])[targets[i]] and
  // dlogits[i] = (softmax(logits[i]) - onehot(targets[i])) * scale. A negative target gives zeros.
  // logits is f32; dlogits is f32 or bf16, and may be logits' memory when it is f32. Both are in
  // the same pieces; what the pieces are is part of the result.
  virtual void cross_entropy(const Pieces& dlogits, float* losses, const ConstPieces& logits,
                             std::span<const std::int32_t> targets, float scale) = 0;
  void cross_entropy(View dlogits, float* losses, ConstView logits,
                     std::span<const std::int32_t> targets, float scale) {
    cross_entropy({dlogits, dlogits.cols, 0}, losses, {logits, logits.cols, 0}, targets, scale);
  }
  // The same a piece at a time, of rows that have several: the statistics of all pieces first, from
  // them the losses, and the gradients of any piece. To the bit what cross_entropy gives of the
  // same pieces. `type` is that of the gradients, which says how good exponentials must be.
  virtual void row_statistics(RowStatistic* to, const RowPiece& piece,
                              std::span<const std::int32_t> targets, DType type) = 0;
  virtual void row_losses(float* losses, const RowStatistics& statistics,
                          std::span<const std::int32_t> targets, DType type) = 0;
  virtual void row_gradients(View dlogits, const RowPiece& piece, const RowStatistics& statistics,
                             std::span<const std::int32_t> targets, float scale) = 0;

  // *total = the sum of values in fp64, in order.
  virtual void sum(double* total, const float* values, std::int64_t count) = 0;

  // dst = src with a change of type where they differ. Same shapes.
  virtual void convert(View dst, ConstView src) = 0;
  virtual void fill_zero(void* data, Bytes bytes) = 0;
};

}  // namespace ebb::kernels
