// Causal attention, one query row at a time. `Stat` is the type of the saved log_sums. Queries are
// the last of the keys: the last query sees all of them, or as many as the window has.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/list.h"
#include "kernels/model_ops.h"
#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class T>
double dot(const T* a, const T* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += load(a[i]) * load(b[i]);
  return sum;
}

// The first key that the query at position `last` sees.
inline std::int64_t first_visible(const AttentionShape& shape, std::int64_t last) {
  return shape.window == 0 ? 0 : std::max<std::int64_t>(0, last + 1 - shape.window);
}

template <class T, class Stat>
void attention(Matrix<T> out, Stat* log_sums, Matrix<const T> q, Matrix<const T> k,
               Matrix<const T> v, const AttentionShape& shape) {
  const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  List<double> p(shape.keys);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t i = 0; i < shape.queries; ++i) {
        const std::int64_t row = b * shape.queries + i, first = b * shape.keys;
        const std::int64_t column = h / group * d;
        // The position of the query among the keys.
        const std::int64_t last = shape.keys - shape.queries + i;
        const std::int64_t begin = first_visible(shape, last), end = last + 1;
        double largest = -std::numeric_limits<double>::infinity();
        for (std::int64_t t = begin; t < end; ++t) {
          p[t] = shape.scale * dot(&q(row, h * d), &k(first + t, column), d);
          largest = std::max(largest, p[t]);
        }
        double total = 0;
        for (std::int64_t t = begin; t < end; ++t) total += p[t] = std::exp(p[t] - largest);
        for (std::int64_t j = 0; j < d; ++j) {
          double sum = 0;
          for (std::int64_t t = begin; t < end; ++t) sum += p[t] * load(v(first + t, column + j));
          store(out(row, h * d + j), sum / total);
        }
        if (log_sums) {
          log_sums[(b * shape.heads + h) * shape.queries + i] =
              static_cast<Stat>(largest + std::log(total));
        }
      }
    }
  }
}

template <class T>
struct AttentionTensors {
  Matrix<const T> dout, q, k, v, out;
};

// With p = exp(scale q k - log_sum), dp = dout v, ds = p (dp - dout out) scale:
// dq = ds k, dk = ds^T q, dv = p^T dout.
template <class T, class Stat>
void attention_backward(Matrix<T> dq, Matrix<T> dk, Matrix<T> dv, const AttentionTensors<T>& in,
                        const Stat* log_sums, const AttentionShape& shape) {
  const std::int64_t d = shape.head_dim, length = shape.keys;
  const std::int64_t group = shape.heads / shape.kv_heads;
  List<double> row_dq(d), all_dk(length * d), all_dv(length * d);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t first = b * length;
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      std::fill(all_dk.begin(), all_dk.end(), 0.0);
      std::fill(all_dv.begin(), all_dv.end(), 0.0);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        for (std::int64_t i = 0; i < length; ++i) {
          const T* q = &in.q(first + i, h * d);
          const T* dout = &in.dout(first + i, h * d);
          const double delta = dot(dout, &in.out(first + i, h * d), d);
          const double log_sum = log_sums[(b * shape.heads + h) * length + i];
          std::fill(row_dq.begin(), row_dq.end(), 0.0);
          for (std::int64_t t = first_visible(shape, i); t <= i; ++t) {
            const T* k = &in.k(first + t, kv * d);
            const double p = std::exp(shape.scale * dot(q, k, d) - log_sum);
            const double ds = p * (dot(dout, &in.v(first + t, kv * d), d) - delta) * shape.scale;
            for (std::int64_t j = 0; j < d; ++j) {
              row_dq[j] += ds * load(k[j]);
              all_dk[t * d + j] += ds * load(q[j]);
              all_dv[t * d + j] += p * load(dout[j]);
            }
          }
          for (std::int64_t j = 0; j < d; ++j) store(dq(first + i, h * d + j), row_dq[j]);
        }
      }
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t j = 0; j < d; ++j) {
          store(dk(first + t, kv * d + j), all_dk[t * d + j]);
          store(dv(first + t, kv * d + j), all_dv[t * d + j]);
        }
      }
    }
  }
}

}  // namespace ebb::kernels::reference
