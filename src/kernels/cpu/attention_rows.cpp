// Rows of attention between its matrix products: softmax over tiles of scores, its backward, and
// products of so few queries that a matrix product would not pay. Compiled once per instruction set
// (Highway includes this file again and again).
#include "kernels/cpu/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_rows.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// The columns [begin, end) that a row sees.
struct Columns {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
};

HWY_INLINE Columns visible_columns(const ScoreTile& tile, std::int64_t row) {
  const auto inside = [&](std::int64_t column) {
    return HWY_MAX(std::int64_t{0}, HWY_MIN(tile.cols, column));
  };
  const std::int64_t end = tile.visible + row;
  return {tile.window == 0 ? 0 : inside(end - tile.window), inside(end)};
}

// Lanes behind the first n become zero, so that they add nothing to a sum.
HWY_INLINE Vector keep_first(Vector v, std::int64_t n) {
  return n == lanes() ? v
                      : hn::IfThenElseZero(hn::FirstN(Floats(), static_cast<std::size_t>(n)), v);
}

// The largest of scale * row. Lanes behind the end count as minus infinity, not as zero.
HWY_INLINE float largest_of(const float* row, std::int64_t count, float scale) {
  const Floats d;
  const Vector factor = hn::Set(d, scale);
  const Vector lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector largest = lowest;
  for_vectors(count, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector value = hn::Mul(load(row + j, n), factor);
    largest = hn::Max(
        largest, n == lanes()
                     ? value
                     : hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(n)), value, lowest));
  });
  return max_lanes(largest);
}

// row = exp(scale * row - shift) for what is seen, 0 for all other columns. Returns the sum.
HWY_INLINE float exponentials(float* all, const Columns& seen, std::int64_t cols, float scale,
                              float shift) {
  const Floats d;
  float* row = all + seen.begin;
  const Vector factor = hn::Set(d, scale), by = hn::Set(d, shift);
  Vector sum = hn::Zero(d);
  for_vectors(seen.count(), [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector e = exponential(hn::Sub(hn::Mul(load(row + j, n), factor), by));
    sum = hn::Add(sum, keep_first(e, n));
    store(e, row + j, n);
  });
  std::fill(all, row, 0.0f);
  std::fill(all + seen.end, all + cols, 0.0f);
  return sum_lanes(sum);
}

// One tile further: scores become exponentials less the largest score so far, and where that has
// grown what was summed up before shrinks accordingly.
void advance(const ScoreTile& tile, const RunningSoftmax& softmax) {
  const Floats d;
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    float* row = tile.scores + i * tile.stride;
    const Columns seen = visible_columns(tile, i);
    // Zeros: the product with the values still goes over the whole tile.
    if (seen.count() == 0) {
      std::fill(row, row + tile.cols, 0.0f);
      continue;
    }
    const float before = softmax.largest[i];
    const float largest = HWY_MAX(before, largest_of(row + seen.begin, seen.count(), tile.scale));
    const float sum = exponentials(row, seen, tile.cols, tile.scale, largest);
    // Most tiles of most rows: the factor would be 1.
    if (before == largest) {
      softmax.total[i] += sum;
      continue;
    }
    const float shrink = std::exp(before - largest);
    softmax.largest[i] = largest;
    softmax.total[i] = softmax.total[i] * shrink + sum;
    float* out = softmax.out + i * softmax.head_dim;
    for_vectors(softmax.head_dim, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      store(hn::Mul(load(out + j, n), hn::Set(d, shrink)), out + j, n);
    });
  }
}

template <class T>
void finish_typed(Rows out, float* log_sums, const RunningSoftmax& softmax, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* from = softmax.out + i * softmax.head_dim;
    T* to = static_cast<T*>(out.data) + i * out.stride;
    const Vector total = hn::Set(Floats(), softmax.total[i]);
    for_vectors(softmax.head_dim, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      store(hn::Div(load(from + j, n), total), to + j, n);
    });
    if (log_sums) log_sums[i] = softmax.largest[i] + std::log(softmax.total[i]);
  }
}

// Divides by the sum of exponentials. The logarithm of the sum is what the backward makes
// probabilities from again.
void finish(Rows out, float* log_sums, const RunningSoftmax& softmax, std::int64_t rows) {
  out.type == DType::f32 ? finish_typed<float>(out, log_sums, softmax, rows)
                         : finish_typed<bf16>(out, log_sums, softmax, rows);
}

// The same exponentials as in the forward pass, already divided: the shift is the logarithm of
// their sum.
void probability_rows(const ScoreTile& tile, const float* log_sums) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    exponentials(tile.scores + i * tile.stride, visible_columns(tile, i), tile.cols, tile.scale,
                 log_sums[i]);
  }
}

// ds = p * (dp - delta) * scale, in the place of dp. Where p is 0, as behind the diagonal, so is
// ds.
void gradient_rows(const ScoreTile& dp, const float* p, const float* delta) {
  const Floats d;
  const Vector scale = hn::Set(d, dp.scale);
  for (std::int64_t i = 0; i < dp.rows; ++i) {
    float* row = dp.scores + i * dp.stride;
    const float* weights = p + i * dp.stride;
    const Vector shift = hn::Set(d, delta[i]);
    for_vectors(dp.cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      const Vector ds = hn::Mul(load(weights + j, n), hn::Sub(load(row + j, n), shift));
      store(hn::Mul(ds, scale), row + j, n);
    });
  }
}

template <class T>
HWY_INLINE float dot(const T* a, const T* b, std::int64_t count) {
  Vector sum = hn::Zero(Floats());
  for_vectors(count, [&](std::int64_t j, std::int64_t n)
                         EBB_LANES { sum = hn::MulAdd(load(a + j, n), load(b + j, n), sum); });
  return sum_lanes(sum);
}

template <class T>
void dot_rows(float* out, ConstRows a, ConstRows b, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; ++i) {
    out[i] = dot(static_cast<const T*>(a.data) + i * a.stride,
                 static_cast<const T*>(b.data) + i * b.stride, cols);
  }
}

void dot_any_rows(float* out, ConstRows a, ConstRows b, std::int64_t rows, std::int64_t cols) {
  a.type == DType::f32 ? dot_rows<float>(out, a, b, rows, cols)
                       : dot_rows<bf16>(out, a, b, rows, cols);
}

// Four keys at a time: one chain of additions alone would wait for itself.
template <class T>
void few_scores(const ScoreTile& tile, ConstRows q, ConstRows k, std::int64_t head_dim) {
  const T* keys = static_cast<const T*>(k.data);
  for (std::int64_t g = 0; g < tile.rows; ++g) {
    const T* query = static_cast<const T*>(q.data) + g * q.stride;
    float* scores = tile.scores + g * tile.stride;
    std::int64_t t = 0;
    for (; t + 4 <= tile.cols; t += 4) {
      const T* key = keys + t * k.stride;
      Vector s0 = hn::Zero(Floats()), s1 = s0, s2 = s0, s3 = s0;
      for_vectors(head_dim, [&](std::int64_t j, std::int64_t n) EBB_LANES {
        const Vector part = load(query + j, n);
        s0 = hn::MulAdd(part, load(key + j, n), s0);
        s1 = hn::MulAdd(part, load(key + k.stride + j, n), s1);
        s2 = hn::MulAdd(part, load(key + 2 * k.stride + j, n), s2);
        s3 = hn::MulAdd(part, load(key + 3 * k.stride + j, n), s3);
      });
      scores[t] = sum_lanes(s0), scores[t + 1] = sum_lanes(s1);
      scores[t + 2] = sum_lanes(s2), scores[t + 3] = sum_lanes(s3);
    }
    for (; t < tile.cols; ++t) scores[t] = dot(query, keys + t * k.stride, head_dim);
  }
}

void few_any_scores(const ScoreTile& tile, ConstRows q, ConstRows k, std::int64_t head_dim) {
  k.type == DType::f32 ? few_scores<float>(tile, q, k, head_dim)
                       : few_scores<bf16>(tile, q, k, head_dim);
}

// Adds the values of all keys to four vectors of out, which stay in registers for all of them.
template <class T>
HWY_INLINE void add_values(float* out, const float* p, const T* values, std::int64_t stride,
                           std::int64_t keys) {
  const std::int64_t step = lanes();
  Vector s0 = load(out), s1 = load(out + step);
  Vector s2 = load(out + 2 * step), s3 = load(out + 3 * step);
  for (std::int64_t t = 0; t < keys; ++t) {
    const Vector weight = hn::Set(Floats(), p[t]);
    const T* value = values + t * stride;
    s0 = hn::MulAdd(weight, load(value), s0);
    s1 = hn::MulAdd(weight, load(value + step), s1);
    s2 = hn::MulAdd(weight, load(value + 2 * step), s2);
    s3 = hn::MulAdd(weight, load(value + 3 * step), s3);
  }
  store(s0, out), store(s1, out + step);
  store(s2, out + 2 * step), store(s3, out + 3 * step);
}

template <class T>
void few_values(const ScoreTile& tile, const RunningSoftmax& softmax, ConstRows v) {
  const T* values = static_cast<const T*>(v.data);
  for (std::int64_t g = 0; g < tile.rows; ++g) {
    const float* p = tile.scores + g * tile.stride;
    float* out = softmax.out + g * softmax.head_dim;
    std::int64_t at = 0;
    for (; at + 4 * lanes() <= softmax.head_dim; at += 4 * lanes()) {
      add_values(out + at, p, values + at, v.stride, tile.cols);
    }
    for_vectors(softmax.head_dim - at, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      Vector sum = load(out + at + j, n);
      for (std::int64_t t = 0; t < tile.cols; ++t) {
        const Vector value = load(values + t * v.stride + at + j, n);
        sum = hn::MulAdd(hn::Set(Floats(), p[t]), value, sum);
      }
      store(sum, out + at + j, n);
    });
  }
}

void few_any_values(const ScoreTile& tile, const RunningSoftmax& softmax, ConstRows v) {
  v.type == DType::f32 ? few_values<float>(tile, softmax, v) : few_values<bf16>(tile, softmax, v);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(advance);
HWY_EXPORT(finish);
HWY_EXPORT(probability_rows);
HWY_EXPORT(gradient_rows);
HWY_EXPORT(dot_any_rows);
HWY_EXPORT(few_any_scores);
HWY_EXPORT(few_any_values);

void advance_softmax(const ScoreTile& tile, const RunningSoftmax& softmax) {
  HWY_DYNAMIC_DISPATCH(advance)(tile, softmax);
}
void finish_softmax(Rows out, float* log_sums, const RunningSoftmax& softmax, std::int64_t rows) {
  HWY_DYNAMIC_DISPATCH(finish)(out, log_sums, softmax, rows);
}
void probabilities(const ScoreTile& tile, const float* log_sums) {
  HWY_DYNAMIC_DISPATCH(probability_rows)(tile, log_sums);
}
void score_gradients(const ScoreTile& dp, const float* p, const float* delta) {
  HWY_DYNAMIC_DISPATCH(gradient_rows)(dp, p, delta);
}
void row_dots(float* out, ConstRows a, ConstRows b, std::int64_t rows, std::int64_t cols) {
  HWY_DYNAMIC_DISPATCH(dot_any_rows)(out, a, b, rows, cols);
}
void decode_scores(const ScoreTile& tile, ConstRows q, ConstRows k, std::int64_t head_dim) {
  HWY_DYNAMIC_DISPATCH(few_any_scores)(tile, q, k, head_dim);
}
void decode_values(const ScoreTile& tile, const RunningSoftmax& softmax, ConstRows v) {
  HWY_DYNAMIC_DISPATCH(few_any_values)(tile, softmax, v);
}

}  // namespace ebb::kernels
#endif
