// Norms of rows and of groups of rows, and the sums of columns that their gradients share with the
// gradients of biases.
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

#ifndef EBB_KERNELS_CPU_NORM_ONCE_
#define EBB_KERNELS_CPU_NORM_ONCE_
namespace ebb::kernels {

// Rows of a sum are added in blocks of this many first: shorter chains of fp32 roundings.
inline constexpr std::int64_t kRowBlock = 128;
inline constexpr std::int64_t kMostColumns = 64;  // of one job

struct RowStats {
  float mean, rstd;
};

// The stats of a group; `index` counts groups over all rows.
inline RowStats stats_at(const float* stats, std::int64_t index, const LayerNorm& norm) {
  if (norm.kind == LayerNorm::Kind::rms) return {0.0f, stats[index]};
  return {stats[2 * index], stats[2 * index + 1]};
}

struct NormRow {
  Rows y;
  ConstRows x;
  const void *weight, *bias;
  float* stats;  // of the row
  bool given;
  std::int64_t width;  // of a group
};

struct NormBackwardRow {
  Rows dx;
  ConstRows dy, x;
  const void* weight;
  const float* stats;  // of the row
  std::int64_t width;  // of a group
  bool add;
};

// A sum over rows, and over the groups of each; of `x` alone, or of dy * (x - mean) * rstd.
struct ColumnSum {
  void* out;  // its first element belongs to the first column
  DType out_type;
  ConstRows x;
  std::int64_t rows, cols;
  ConstRows dy = {};
  const float* stats = nullptr;  // null: of x alone
  std::int64_t width = 0;        // of a group
  LayerNorm norm = {};
};

}  // namespace ebb::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

template <class T>
float sum_of(const T* x, std::int64_t count) {
  Vector sum = hn::Zero(Floats());
  for_vectors(
      count, [&](std::int64_t j, std::int64_t n) EBB_LANES { sum = hn::Add(sum, load(x + j, n)); });
  return sum_lanes(sum);
}

// x - mean in the first n lanes, 0 in the others.
template <class T>
HWY_INLINE Vector centred(const T* x, Vector mean, std::int64_t n) {
  const Vector value = hn::Sub(load(x, n), mean);
  return n == lanes()
             ? value
             : hn::IfThenElseZero(hn::FirstN(Floats(), static_cast<std::size_t>(n)), value);
}

template <class T>
RowStats find_stats(const T* x, std::int64_t count, const LayerNorm& norm) {
  const Floats d;
  const auto of = static_cast<double>(count);
  float mean = 0.0f;
  if (norm.kind == LayerNorm::Kind::layer) mean = static_cast<float>(sum_of(x, count) / of);
  Vector squares = hn::Zero(d);
  for_vectors(count, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector value = centred(x + j, hn::Set(d, mean), n);
    squares = hn::MulAdd(value, value, squares);
  });
  const double variance = static_cast<double>(sum_lanes(squares)) / of;
  return {mean, static_cast<float>(1.0 / std::sqrt(variance + norm.epsilon))};
}

template <class T>
void norm_group(T* y, const T* x, const T* weight, const T* bias, std::int64_t width,
                const RowStats& stats, float offset) {
  const Floats d;
  const Vector mean = hn::Set(d, stats.mean), rstd = hn::Set(d, stats.rstd);
  const Vector shift = hn::Set(d, offset);
  for_vectors(width, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector xhat = hn::Mul(hn::Sub(load(x + j, n), mean), rstd);
    Vector value = hn::Mul(xhat, hn::Add(load(weight + j, n), shift));
    if (bias) value = hn::Add(value, load(bias + j, n));
    store(value, y + j, n);
  });
}

template <class T>
void norm_row(const NormRow& row, const LayerNorm& norm) {
  for (std::int64_t g = 0; g < norm.groups; ++g) {
    const T* x = static_cast<const T*>(row.x.data) + g * row.width;
    RowStats stats;
    if (row.given) {
      stats = stats_at(row.stats, g, norm);
    } else {
      stats = find_stats(x, row.width, norm);
      const bool layer = norm.kind == LayerNorm::Kind::layer;
      if (layer) row.stats[2 * g] = stats.mean;
      row.stats[layer ? 2 * g + 1 : g] = stats.rstd;
    }
    norm_group(static_cast<T*>(row.y.data) + g * row.width, x, static_cast<const T*>(row.weight),
               static_cast<const T*>(row.bias), row.width, stats, norm.weight_offset);
  }
}

void norm_any_row(const NormRow& row, const LayerNorm& norm) {
  row.x.type == DType::f32 ? norm_row<float>(row, norm) : norm_row<bf16>(row, norm);
}

// With c = x - mean and g = dy * (weight + offset):
// dx = rstd g - c rstd^3 mean(g c) - rstd mean(g), the last for Kind::layer only.
template <class T, LayerNorm::Kind kKind>
void norm_backward_row(const NormBackwardRow& row, const LayerNorm& norm) {
  const Floats d;
  const T* weight = static_cast<const T*>(row.weight);
  const Vector offset = hn::Set(d, norm.weight_offset);
  for (std::int64_t group = 0; group < norm.groups; ++group) {
    T* dx = static_cast<T*>(row.dx.data) + group * row.width;
    const T* dy = static_cast<const T*>(row.dy.data) + group * row.width;
    const T* x = static_cast<const T*>(row.x.data) + group * row.width;
    const RowStats stats = stats_at(row.stats, group, norm);
    const Vector mean = hn::Set(d, stats.mean);
    const auto through_weight = [&](std::int64_t j, std::int64_t n) EBB_LANES {
      return hn::Mul(load(dy + j, n), hn::Add(load(weight + j, n), offset));
    };
    Vector products = hn::Zero(d), sums = hn::Zero(d);
    for_vectors(row.width, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      const Vector g = through_weight(j, n);
      products = hn::MulAdd(g, hn::Sub(load(x + j, n), mean), products);
      if constexpr (kKind == LayerNorm::Kind::layer) sums = hn::Add(sums, g);
    });
    const double rstd = stats.rstd;
    const auto count = static_cast<double>(row.width);
    const double product = sum_lanes(products) / count;
    const double sum = sum_lanes(sums) / count;
    const Vector by_g = hn::Set(d, stats.rstd);
    const Vector by_c = hn::Set(d, static_cast<float>(rstd * rstd * rstd * product));
    const Vector shift = hn::Set(d, static_cast<float>(rstd * sum));
    for_vectors(row.width, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      const Vector g = through_weight(j, n), c = hn::Sub(load(x + j, n), mean);
      const Vector through = hn::Sub(hn::NegMulAdd(c, by_c, hn::Mul(g, by_g)), shift);
      store(row.add ? hn::Add(load(dx + j, n), through) : through, dx + j, n);
    });
  }
}

template <class T>
void norm_backward_typed(const NormBackwardRow& row, const LayerNorm& norm) {
  norm.kind == LayerNorm::Kind::rms ? norm_backward_row<T, LayerNorm::Kind::rms>(row, norm)
                                    : norm_backward_row<T, LayerNorm::Kind::layer>(row, norm);
}

void norm_backward_any_row(const NormBackwardRow& row, const LayerNorm& norm) {
  row.x.type == DType::f32 ? norm_backward_typed<float>(row, norm)
                           : norm_backward_typed<bf16>(row, norm);
}

template <class T>
void sum_columns(const ColumnSum& job) {
  const Floats d;
  HWY_ALIGN float total[kMostColumns] = {};
  const std::int64_t groups = job.norm.groups;
  std::int64_t row = 0, group = 0;  // counted along: a division costs as much as a row's part
  const auto next = [&] {
    if (++group == groups) ++row, group = 0;
  };
  for (std::int64_t first = 0; first < job.rows * groups; first += kRowBlock) {
    HWY_ALIGN float block[kMostColumns] = {};
    const std::int64_t last = HWY_MIN(job.rows * groups, first + kRowBlock);
    for (std::int64_t i = first; i < last; ++i, next()) {
      const std::int64_t column = group * job.width;
      const T* x = static_cast<const T*>(job.x.data) + row * job.x.stride + column;
      if (job.stats == nullptr) {
        for_vectors(job.cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
          store(hn::Add(load(block + j, n), load(x + j, n)), block + j, n);
        });
        continue;
      }
      const T* dy = static_cast<const T*>(job.dy.data) + row * job.dy.stride + column;
      const RowStats stats = stats_at(job.stats, i, job.norm);
      const Vector mean = hn::Set(d, stats.mean), rstd = hn::Set(d, stats.rstd);
      for_vectors(job.cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
        const Vector xhat = hn::Mul(hn::Sub(load(x + j, n), mean), rstd);
        const Vector value = hn::Mul(xhat, load(dy + j, n));
        store(hn::Add(load(block + j, n), value), block + j, n);
      });
    }
    for_vectors(job.cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      store(hn::Add(load(total + j, n), load(block + j, n)), total + j, n);
    });
  }
  for_vectors(job.cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector value = load(total + j, n);
    job.out_type == DType::f32 ? store(value, static_cast<float*>(job.out) + j, n)
                               : store(value, static_cast<bf16*>(job.out) + j, n);
  });
}

void sum_any_columns(const ColumnSum& job) {
  job.x.type == DType::f32 ? sum_columns<float>(job) : sum_columns<bf16>(job);
}

template <class T>
void add_to_rows(T* x, std::int64_t stride, const T* row, std::int64_t rows, std::int64_t cols) {
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector value = load(row + j, n);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* at = x + i * stride + j;
      store(hn::Add(load(at, n), value), at, n);
    }
  });
}

void add_to_any_rows(Rows x, const void* row, std::int64_t rows, std::int64_t cols) {
  x.type == DType::f32 ? add_to_rows(static_cast<float*>(x.data), x.stride,
                                     static_cast<const float*>(row), rows, cols)
                       : add_to_rows(static_cast<bf16*>(x.data), x.stride,
                                     static_cast<const bf16*>(row), rows, cols);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(norm_any_row);
HWY_EXPORT(norm_backward_any_row);
HWY_EXPORT(sum_any_columns);
HWY_EXPORT(add_to_any_rows);

void CpuOps::norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
                  const void* bias, const LayerNorm& norm) {
  for_rows(x.rows, x.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(norm_any_row)
      ({rows_of(y, i), rows_of(x, i), weight, bias, stats + norm.stats(i), stats_given,
        x.cols / norm.groups},
       norm);
    }
  });
}

// Sums of columns first: dx may be dy's memory.
void CpuOps::norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float* stats,
                           const void* weight, const LayerNorm& norm) {
  const std::int64_t width = x.cols / norm.groups;
  for_columns(width, [&](std::int64_t first, std::int64_t last) {
    ColumnSum job{element(to.dweight, to.type, first),
                  to.type,
                  rows_of(x, 0, first),
                  x.rows,
                  last - first,
                  rows_of(dy, 0, first),
                  stats,
                  width,
                  norm};
    HWY_DYNAMIC_DISPATCH(sum_any_columns)(job);
    if (to.dbias == nullptr) return;
    job.out = element(to.dbias, to.type, first);
    job.x = job.dy, job.stats = nullptr;
    HWY_DYNAMIC_DISPATCH(sum_any_columns)(job);
  });
  for_rows(x.rows, x.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(norm_backward_any_row)
      ({rows_of(to.dx, i), rows_of(dy, i), rows_of(x, i), weight, stats + norm.stats(i), width,
        to.add},
       norm);
    }
  });
}

void CpuOps::column_sums(void* out, DType type, ConstView x) {
  for_columns(x.cols, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(sum_any_columns)
    ({element(out, type, first), type, rows_of(x, 0, first), x.rows, last - first});
  });
}

void CpuOps::add_row(View x, const void* row) {
  for_columns(x.cols, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(add_to_any_rows)
    (rows_of(x, 0, first), element(row, x.type, first), x.rows, last - first);
  });
}

}  // namespace ebb::kernels
#endif
