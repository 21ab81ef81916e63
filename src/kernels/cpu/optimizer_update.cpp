// Compiled once per instruction set (Highway includes this file again and again); the member at the
// end cuts an update into pieces and sends them to the best set the processor has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer_update.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "kernels/cpu/optimizer_ops.h"

#include <cstring>
#include <type_traits>
#include <variant>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/pieces.h"
#include "kernels/moment_codes.h"
#include "kernels/optimizer_checks.h"
#include "kernels/reference/optimizer_ops.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

#if HWY_NATIVE_FMA && !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

#undef EBB_ARITHMETIC
#define EBB_ARITHMETIC HWY_INLINE
#include "kernels/update_arithmetic-inl.h"

#include "kernels/cpu/optimizer_lanes-inl.h"
#include "kernels/cpu/optimizer_moments-inl.h"

// Asks for a block's worth of each plane, some way ahead, or does nothing. A kernel has it or has
// it not: where it does not pay nothing of it is left, and a function around it that is not inlined
// has no effect that a compiler keeps.
template <bool kFetches>
struct Fetch {
  static constexpr std::uintptr_t kElements = 4096;

  // Fetches ahead in each plane that there is.
  template <class... T>
  HWY_INLINE void operator()(std::int64_t element, const T*... planes) const {
    if constexpr (kFetches) (fetch(planes + element), ...);
  }

 private:
  // The address may be behind the plane's end.
  template <class T>
  static HWY_INLINE void fetch(const T* plane) {
    constexpr std::size_t kLine = 64;
    const std::uintptr_t from = reinterpret_cast<std::uintptr_t>(plane) + kElements * sizeof(T);
    for (std::size_t line = 0; line < kStateBlock * sizeof(T); line += kLine) {
      hwy::Prefetch(reinterpret_cast<const char*>(from + line));
    }
  }
};

// The planes besides the moments, and the step. `step` is a copy: through a reference it could
// alias the planes, and its vectors would be made anew for every store.
template <class Weight, class Gradient, class S>
struct Planes {
  Weight* weight;
  std::int16_t* low;
  const Gradient* gradient;
  S step;
  float factor;

  Planes(const StateSpan& span, const S& numbers, float gradient_scale)
      : weight(static_cast<Weight*>(span.weight)),
        low(span.low),
        gradient(static_cast<const Gradient*>(span.gradient)),
        step(numbers),
        factor(gradient_factor(numbers, gradient_scale)) {}
  template <class AnyFetch>
  HWY_INLINE void fetch(const AnyFetch& ahead, std::int64_t element) const {
    ahead(element, weight, gradient);
    if constexpr (std::is_same_v<Weight, bf16>) ahead(element, low);
  }
  template <class Order>
  HWY_INLINE Number load_gradient(std::int64_t i) const {
    return Lanes::mul(Order::load(gradient + i), Lanes::number(factor));
  }
  template <class Order>
  HWY_INLINE Number load_masters(std::int64_t i) const {
    return Order::load_masters(weight + i, low_at(i));
  }
  template <class Order>
  HWY_INLINE void store_masters(Number p, std::int64_t i) const {
    Order::store_masters(p, weight + i, low_at(i));
  }

 private:
  HWY_INLINE std::int16_t* low_at(std::int64_t i) const {
    return std::is_same_v<Weight, bf16> ? low + i : nullptr;
  }
};

// `count` is a multiple of the states' block, here and below.
template <bool kFetches, class Weight, class Gradient, class S>
void update_exact(const StateSpan& span, const S& step, float scale) {
  using Moments = ExactMoments<kMoments<S>>;
  const Planes<Weight, Gradient, S> planes(span, step, scale);
  const Moments moments(span);
  constexpr Fetch<kFetches> fetch;
  const std::int64_t blocks = span.count / kStateBlock;
  for (std::int64_t block = 0; block < blocks; ++block) {
    planes.fetch(fetch, block * kStateBlock);
    moments.fetch(fetch, block * kStateBlock);
    for (std::int64_t w = 0; w < kBlockWords; w += lanes()) {
      const Place at{block, w};
      Number m, v;
      moments.load(at, m, v);
      Number p = planes.template load_masters<InRow>(at.element());
      apply<Lanes>(planes.step, p, planes.template load_gradient<InRow>(at.element()), m, v);
      moments.store(at, m, v);
      planes.template store_masters<InRow>(p, at.element());
    }
    if (HWY_UNLIKELY(planes.step.drops_denormals)) moments.drop_denormals_of(block);
  }
}

// The compact formats, which are AdamW's alone. What a moment becomes in memory is made between its
// root and the division by it, which both take long.
template <class AllPlanes>
HWY_INLINE void move_masters(const AllPlanes& planes, Place at, Number m, Number root) {
  const Number q = adam_quotient<Lanes>(planes.step, m, root);
  const Number p = planes.template load_masters<ByTurns>(at.element());
  const Number decay = Lanes::number(planes.step.decay_factor);
  planes.template store_masters<ByTurns>(Lanes::fms(p, decay, q), at.element());
}

template <class AllPlanes>
HWY_INLINE void move_moments(const AllPlanes& planes, const AdamWStep& step, Place at, Number& m,
                             Number& v) {
  adam_moments<Lanes>(step, planes.template load_gradient<ByTurns>(at.element()), m, v);
}

template <bool kFetches, class Weight, class Gradient>
void update_bf16(const StateSpan& span, const AdamWStep& step, float scale) {
  const Planes<Weight, Gradient, AdamWStep> planes(span, step, scale);
  const Bf16Moments moments(span, step);
  constexpr Fetch<kFetches> fetch;
  const std::int64_t blocks = span.count / kStateBlock;
  for (std::int64_t block = 0; block < blocks; ++block) {
    planes.fetch(fetch, block * kStateBlock);
    moments.fetch(fetch, block * kStateBlock);
    for (std::int64_t w = 0; w < kBlockWords; w += lanes()) {
      const Place at{block, w};
      Number m, v;
      moments.load(at, m, v);
      move_moments(planes, planes.step, at, m, v);
      const Number root = Lanes::sqrt(v);
      moments.store(at, m, v);
      move_masters(planes, at, m, root);
    }
    if (HWY_UNLIKELY(planes.step.drops_denormals)) moments.drop_denormals_of(block);
  }
}

template <bool kFetches, class Weight, class Gradient>
void update_int8(const StateSpan& span, const AdamWStep& step, float scale) {
  const Planes<Weight, Gradient, AdamWStep> planes(span, step, scale);
  const Int8Moments moments(span, step);
  LargestOfBlocks largest;
  BlockNumbers numbers = {};
  constexpr Fetch<kFetches> fetch;
  const std::int64_t blocks = span.count / kStateBlock;
  for (std::int64_t start = 0; start < blocks; start += BlockNumbers::kBlocks) {
    const std::int64_t count = HWY_MIN(BlockNumbers::kBlocks, blocks - start);
    moments.prepare(start, count, planes.gradient, planes.factor, planes.step, largest, numbers);
    for (std::int64_t i = 0; i < count; ++i) {
      planes.fetch(fetch, (start + i) * kStateBlock);
      moments.fetch(fetch, (start + i) * kStateBlock);
      AdamWStep in_steps = planes.step;
      in_steps.beta1 = numbers.beta1[i];
      for (std::int64_t w = 0; w < kBlockWords; w += lanes()) {
        const Place at{start + i, w};
        Number m, v;
        moments.load(at, numbers.least[i], m, v);
        move_moments(planes, in_steps, at, m, v);
        const Number root = Lanes::sqrt(v);
        moments.store(at, numbers, i, m, v);
        move_masters(planes, at, m, root);
      }
      moments.clear_without_scale(start + i);
    }
  }
}

// Calls `kernel` with the types of the span's planes.
template <class Kernel>
void with_types(const StateSpan& span, const Kernel& kernel) {
  const bool short_gradient = span.gradient_type == DType::bf16;
  if (span.weight_type == DType::bf16) {
    short_gradient ? kernel(bf16(), bf16()) : kernel(bf16(), float());
  } else {
    short_gradient ? kernel(float(), bf16()) : kernel(float(), float());
  }
}

template <bool kFetches>
void update_whole(const StateSpan& span, const Step& step, float scale) {
  with_types(span, [&]<class W, class G>(W, G) {
    switch (span.format) {
      case StateFormat::exact:
        std::visit([&](const auto& numbers) { update_exact<kFetches, W, G>(span, numbers, scale); },
                   step);
        break;
      case StateFormat::bf16:
        update_bf16<kFetches, W, G>(span, std::get<AdamWStep>(step), scale);
        break;
      case StateFormat::int8:
        update_int8<kFetches, W, G>(span, std::get<AdamWStep>(step), scale);
        break;
    }
  });
}

// Copies planes of fewer than a block's elements to memory for a whole block, and back. Int8 codes
// are whole blocks already, but those behind the last element are not the update's.
struct PaddedBlock {
  HWY_ALIGN std::byte planes[5][kStateBlock * sizeof(float)] = {};
  StateSpan padded;

  explicit PaddedBlock(const StateSpan& span) : padded(span) {
    padded.count = kStateBlock;
    padded.weight = copied(0, span.weight, size_of(span.weight_type) * span.count);
    padded.low = static_cast<std::int16_t*>(copied(1, span.low, 2 * span.count));
    if (span.format == StateFormat::int8) {
      std::memset(planes[2], kFirstZero, kStateBlock);
      padded.first = gathered(2, span.first, span.count);
      padded.second = gathered(3, span.second, span.count);
    } else {
      padded.first = copied(2, span.first, moment_bytes(span.format) * span.count);
      padded.second = copied(3, span.second, moment_bytes(span.format) * span.count);
    }
    padded.gradient = copied(4, span.gradient, size_of(span.gradient_type) * span.count);
  }
  void copy_back(const StateSpan& to) const {
    back(0, to.weight, size_of(to.weight_type) * to.count);
    back(1, to.low, 2 * to.count);
    if (to.format == StateFormat::int8) {
      scatter(2, to.first, to.count);
      scatter(3, to.second, to.count);
    } else {
      back(2, to.first, moment_bytes(to.format) * to.count);
      back(3, to.second, moment_bytes(to.format) * to.count);
    }
  }

 private:
  void* copied(int plane, const void* from, Bytes bytes) {
    if (from == nullptr) return nullptr;
    return std::memcpy(planes[plane], from, static_cast<std::size_t>(bytes));
  }
  void back(int plane, void* to, Bytes bytes) const {
    if (to != nullptr) std::memcpy(to, planes[plane], static_cast<std::size_t>(bytes));
  }
  void* gathered(int plane, const void* from, std::int64_t count) {
    const auto* codes = static_cast<const std::byte*>(from);
    for (std::int64_t i = 0; i < count; ++i) planes[plane][code_index(i)] = codes[code_index(i)];
    return planes[plane];
  }
  void scatter(int plane, void* to, std::int64_t count) const {
    auto* codes = static_cast<std::byte*>(to);
    for (std::int64_t i = 0; i < count; ++i) codes[code_index(i)] = planes[plane][code_index(i)];
  }
};

void update_piece(const StateSpan& span, const Step& step, float scale) {
  const std::int64_t whole = span.count / kStateBlock * kStateBlock;
  if (whole > 0) {
    const StateSpan blocks = part_of(span, 0, whole);
    fetching_pays() ? update_whole<true>(blocks, step, scale)
                    : update_whole<false>(blocks, step, scale);
  }
  if (whole == span.count) return;
  const StateSpan rest = part_of(span, whole, span.count - whole);
  const PaddedBlock block(rest);
  update_whole<false>(block.padded, step, scale);
  block.copy_back(rest);
}

#else  // MulAdd would round twice here, or division be approximate, or vectors be no members.

void update_piece(const StateSpan& span, const Step& step, float scale) {
  const StepScale step_scale{scale, 1};
  ReferenceOptimizerOps().update(span, step, &step_scale);
}

#endif

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {
HWY_EXPORT(update_piece);
}

void CpuOptimizerOps::update_spans(std::span<const SpanUpdate> updates, const StepScale* scale) {
  check_spans(updates);
  if (scale->apply == 0) return;
  const float gradient_scale = scale->gradient_scale;
  const auto count_of = [](const SpanUpdate& update) { return update.span.count; };
  for_pieces_of(pool_, updates, count_of,
                [&](const SpanUpdate& update, std::int64_t start, std::int64_t length) {
                  HWY_DYNAMIC_DISPATCH(update_piece)
                  (part_of(update.span, start, length), update.step, gradient_scale);
                });
}

}  // namespace ebb::kernels
#endif  // HWY_ONCE
