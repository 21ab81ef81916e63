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

struct NormBackward {
  Rows dx;
  ConstRows dy, x;
  const float* rstd;
  const void* weight;
};

struct ColumnSum {
  void* out;  // its first element belongs to the first column
  DType out_type;
  ConstRows x;
  ConstRows dy;       // null: the sum is of x alone, else of dy * x * rstd
  const float* rstd;  // one a row
  std::int64_t rows, cols;
};

}  // namespace ebb::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

template <class T>
float row_rstd(const T* x, std::int64_t cols, float epsilon) {
  const Floats d;
  Vector squares = hn::Zero(d);
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector value = load(x + j, n);
    squares = hn::MulAdd(value, value, squares);
  });
  const double mean = static_cast<double>(sum_lanes(squares)) / static_cast<double>(cols);
  return static_cast<float>(1.0 / std::sqrt(mean + epsilon));
}

template <class T>
void norm_row(T* y, float* rstd, bool given, const T* x, const T* weight, std::int64_t cols,
              float epsilon) {
  if (!given) *rstd = row_rstd(x, cols, epsilon);
  const Vector factor = hn::Set(Floats(), *rstd);
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    store(hn::Mul(hn::Mul(load(x + j, n), factor), load(weight + j, n)), y + j, n);
  });
}

void norm_any_row(Rows y, float* rstd, bool given, ConstRows x, const void* weight,
                  std::int64_t cols, float epsilon) {
  if (x.type == DType::f32) {
    norm_row(static_cast<float*>(y.data), rstd, given, static_cast<const float*>(x.data),
             static_cast<const float*>(weight), cols, epsilon);
  } else {
    norm_row(static_cast<bf16*>(y.data), rstd, given, static_cast<const bf16*>(x.data),
             static_cast<const bf16*>(weight), cols, epsilon);
  }
}

template <class T>
void norm_backward_row(const NormBackward& row, std::int64_t cols) {
  const Floats d;
  T* dx = static_cast<T*>(row.dx.data);
  const T* dy = static_cast<const T*>(row.dy.data);
  const T* x = static_cast<const T*>(row.x.data);
  const T* weight = static_cast<const T*>(row.weight);
  Vector products = hn::Zero(d);
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector g = hn::Mul(load(dy + j, n), load(weight + j, n));
    products = hn::MulAdd(g, load(x + j, n), products);
  });
  // dx += rstd g - x rstd^3 mean(g x)
  const double rstd = *row.rstd;
  const double mean = sum_lanes(products) / static_cast<double>(cols);
  const Vector by_g = hn::Set(d, *row.rstd);
  const Vector by_x = hn::Set(d, static_cast<float>(rstd * rstd * rstd * mean));
  for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
    const Vector g = hn::Mul(load(dy + j, n), load(weight + j, n));
    const Vector through = hn::NegMulAdd(load(x + j, n), by_x, hn::Mul(g, by_g));
    store(hn::Add(load(dx + j, n), through), dx + j, n);
  });
}

void norm_backward_any_row(const NormBackward& row, std::int64_t cols) {
  row.x.type == DType::f32 ? norm_backward_row<float>(row, cols)
                           : norm_backward_row<bf16>(row, cols);
}

template <class T>
void sum_columns(const ColumnSum& job) {
  HWY_ALIGN float total[kMostColumns] = {};
  for (std::int64_t first = 0; first < job.rows; first += kRowBlock) {
    HWY_ALIGN float block[kMostColumns] = {};
    const std::int64_t last = HWY_MIN(job.rows, first + kRowBlock);
    for (std::int64_t i = first; i < last; ++i) {
      const T* x = static_cast<const T*>(job.x.data) + i * job.x.stride;
      const T* dy = static_cast<const T*>(job.dy.data) + (job.dy.data ? i * job.dy.stride : 0);
      for_vectors(job.cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
        Vector value = load(x + j, n);
        if (job.dy.data) {
          value = hn::Mul(hn::Mul(value, hn::Set(Floats(), job.rstd[i])), load(dy + j, n));
        }
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

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(norm_any_row);
HWY_EXPORT(norm_backward_any_row);
HWY_EXPORT(sum_any_columns);

void CpuOps::rms_norm(View y, float* rstd, bool rstd_given, ConstView x, const void* weight,
                      float epsilon) {
  for_rows(x.rows, x.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(norm_any_row)
      (rows_of(y, i), rstd + i, rstd_given, rows_of(x, i), weight, x.cols, epsilon);
    }
  });
}

void CpuOps::rms_norm_backward(View dx, void* dweight, DType dweight_type, ConstView dy,
                               ConstView x, const float* rstd, const void* weight) {
  for_rows(x.rows, x.cols, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      HWY_DYNAMIC_DISPATCH(norm_backward_any_row)
      ({rows_of(dx, i), rows_of(dy, i), rows_of(x, i), rstd + i, weight}, x.cols);
    }
  });
  for_columns(x.cols, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(sum_any_columns)
    ({element(dweight, dweight_type, first), dweight_type, rows_of(x, 0, first),
      rows_of(dy, 0, first), rstd, x.rows, last - first});
  });
}

void CpuOps::column_sums(void* out, DType type, ConstView x) {
  for_columns(x.cols, [&](std::int64_t first, std::int64_t last) {
    HWY_DYNAMIC_DISPATCH(sum_any_columns)
    ({element(out, type, first), type, rows_of(x, 0, first), {}, nullptr, x.rows, last - first});
  });
}

}  // namespace ebb::kernels
#endif
