// Normalisation of rows, or of each of their groups. `Stat` is the type of the saved stats: of
// group g of row i they are at i * groups + g, the rstd alone (rms) or the pair of mean and rstd
// (layer).
#pragma once

#include <cmath>

#include "kernels/model_ops.h"
#include "kernels/reference/matrix.h"

namespace ebb::kernels::reference {

template <class Stat>
struct RowStats {
  Stat mean, rstd;
};

template <class Stat>
RowStats<Stat> read_stats(const Stat* stats, std::int64_t index, const LayerNorm& norm) {
  if (norm.kind == LayerNorm::Kind::rms) return {0, stats[index]};
  return {stats[2 * index], stats[2 * index + 1]};
}

// Two passes, the mean first: a single one would lose digits where the mean is large.
template <class Stat, class T>
void write_stats(Stat* stats, std::int64_t index, const T* x, std::int64_t width,
                 const LayerNorm& norm) {
  const bool layer = norm.kind == LayerNorm::Kind::layer;
  const auto count = static_cast<double>(width);
  double mean = 0, squares = 0;
  for (std::int64_t j = 0; layer && j < width; ++j) mean += load(x[j]) / count;
  for (std::int64_t j = 0; j < width; ++j) squares += (load(x[j]) - mean) * (load(x[j]) - mean);
  const auto rstd = static_cast<Stat>(1.0 / std::sqrt(squares / count + norm.epsilon));
  if (layer) stats[2 * index] = static_cast<Stat>(mean);
  stats[layer ? 2 * index + 1 : index] = rstd;
}

template <class T, class Stat>
void norm(Matrix<T> y, Stat* stats, bool stats_given, Matrix<const T> x, const T* weight,
          const T* bias, const LayerNorm& norm) {
  const std::int64_t width = x.cols / norm.groups;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t g = 0; g < norm.groups; ++g) {
      const std::int64_t index = i * norm.groups + g, first = g * width;
      if (!stats_given) write_stats(stats, index, &x(i, first), width, norm);
      const RowStats<Stat> row = read_stats(stats, index, norm);
      for (std::int64_t j = 0; j < width; ++j) {
        const double xhat = (load(x(i, first + j)) - row.mean) * row.rstd;
        const double value = xhat * (load(weight[j]) + norm.weight_offset);
        store(y(i, first + j), value + (bias ? load(bias[j]) : 0.0));
      }
    }
  }
}

template <class T, class DWeight>
struct NormGradientPlaces {
  Matrix<T> dx;
  bool add;
  DWeight* dweight;
  DWeight* dbias;  // null where there is none
};

// With xhat = (x - mean) * rstd and g = dy * (weight + offset), means over a group:
// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), where mean(g) is left out for Kind::rms.
// dweight and dbias come first: dx may be dy's memory.
template <class T, class DWeight, class Stat>
void norm_backward(const NormGradientPlaces<T, DWeight>& to, Matrix<const T> dy, Matrix<const T> x,
                   const Stat* stats, const T* weight, const LayerNorm& norm) {
  const std::int64_t width = x.cols / norm.groups;
  const auto xhat = [&](std::int64_t i, std::int64_t g, std::int64_t j) {
    const RowStats<Stat> row = read_stats(stats, i * norm.groups + g, norm);
    return (load(x(i, g * width + j)) - row.mean) * row.rstd;
  };
  for (std::int64_t j = 0; j < width; ++j) {
    double weight_sum = 0, bias_sum = 0;
    for (std::int64_t i = 0; i < x.rows; ++i) {
      for (std::int64_t g = 0; g < norm.groups; ++g) {
        const double d = load(dy(i, g * width + j));
        weight_sum += d * xhat(i, g, j);
        bias_sum += d;
      }
    }
    store(to.dweight[j], weight_sum);
    if (to.dbias) store(to.dbias[j], bias_sum);
  }
  const auto count = static_cast<double>(width);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t g = 0; g < norm.groups; ++g) {
      const auto through_weight = [&](std::int64_t j) {
        return load(dy(i, g * width + j)) * (load(weight[j]) + norm.weight_offset);
      };
      double mean = 0, product = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        if (norm.kind == LayerNorm::Kind::layer) mean += through_weight(j) / count;
        product += through_weight(j) * xhat(i, g, j) / count;
      }
      const double rstd = read_stats(stats, i * norm.groups + g, norm).rstd;
      for (std::int64_t j = 0; j < width; ++j) {
        const double through = rstd * (through_weight(j) - mean - xhat(i, g, j) * product);
        T& dx = to.dx(i, g * width + j);
        store(dx, to.add ? load(dx) + through : through);
      }
    }
  }
}

}  // namespace ebb::kernels::reference
