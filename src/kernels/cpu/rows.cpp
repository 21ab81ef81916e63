#include "kernels/cpu/rows.h"

#include <cstring>

#include "kernels/element_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cpp"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

template <class D, class S>
void convert_typed(Rows dst, ConstRows src, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; ++i) {
    D* to = static_cast<D*>(dst.data) + i * dst.stride;
    const S* from = static_cast<const S*>(src.data) + i * src.stride;
    for_vectors(cols, [&](std::int64_t j, std::int64_t n)
                          EBB_LANES { store(load(from + j, n), to + j, n); });
  }
}

void widen_or_narrow(Rows dst, ConstRows src, std::int64_t rows, std::int64_t cols) {
  dst.type == DType::f32 ? convert_typed<float, bf16>(dst, src, rows, cols)
                         : convert_typed<bf16, float>(dst, src, rows, cols);
}

template <class C>
void store_sums_typed(Rows c, const SumStore& from, std::int64_t rows, std::int64_t cols) {
  const C* bias = static_cast<const C*>(from.bias);
  for (std::int64_t i = 0; i < rows; ++i) {
    C* to = static_cast<C*>(c.data) + i * c.stride;
    const C* addend = static_cast<const C*>(from.addend) + (from.addend ? i * c.stride : 0);
    const float* sum = from.sum + i * from.sum_stride;
    for_vectors(cols, [&](std::int64_t j, std::int64_t n) EBB_LANES {
      Vector value = load(sum + j, n);
      if (bias) value = hn::Add(value, load(bias + j, n));
      if (from.addend) value = hn::Add(value, load(addend + j, n));
      store(value, to + j, n);
    });
  }
}

void store_any_sums(Rows c, const SumStore& from, std::int64_t rows, std::int64_t cols) {
  c.type == DType::f32 ? store_sums_typed<float>(c, from, rows, cols)
                       : store_sums_typed<bf16>(c, from, rows, cols);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(widen_or_narrow);
HWY_EXPORT(store_any_sums);

void convert_rows(Rows dst, ConstRows src, std::int64_t rows, std::int64_t cols) {
  if (dst.type != src.type) return HWY_DYNAMIC_DISPATCH(widen_or_narrow)(dst, src, rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(element(dst.data, dst.type, i * dst.stride),
                element(src.data, src.type, i * src.stride),
                static_cast<std::size_t>(cols * size_of(dst.type)));
  }
}

void store_sums(Rows c, const SumStore& from, std::int64_t rows, std::int64_t cols) {
  HWY_DYNAMIC_DISPATCH(store_any_sums)(c, from, rows, cols);
}

}  // namespace ebb::kernels
#endif
