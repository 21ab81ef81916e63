// Compiled once per instruction set (Highway includes this file again and again); the member at the
// end cuts an update into pieces and sends them to the best set the processor has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer_update.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"

#include "kernels/cpu/optimizer_ops.h"

#include <cstring>
#include <type_traits>
#include <variant>

#include "kernels/cpu/pieces.h"
#include "kernels/moment_codes.h"
#include "kernels/optimizer_checks.h"
#include "kernels/reference/optimizer_ops.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

#if HWY_NATIVE_FMA && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

#undef EBB_ARITHMETIC
#define EBB_ARITHMETIC HWY_INLINE
#include "kernels/update_arithmetic-inl.h"

using Words = hn::RebindToUnsigned<Floats>;

struct Lanes {
  using Number = Vector;
  using Word = hn::Vec<Words>;

  static HWY_INLINE Number number(float x) { return hn::Set(Floats(), x); }
  static HWY_INLINE Number add(Number a, Number b) { return hn::Add(a, b); }
  static HWY_INLINE Number sub(Number a, Number b) { return hn::Sub(a, b); }
  static HWY_INLINE Number mul(Number a, Number b) { return hn::Mul(a, b); }
  static HWY_INLINE Number div(Number a, Number b) { return hn::Div(a, b); }
  static HWY_INLINE Number fma(Number a, Number b, Number c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE Number sqrt(Number a) { return hn::Sqrt(a); }
  static HWY_INLINE Number sign(Number a) {
    const auto negative = hn::IfThenElse(hn::Lt(a, number(0)), number(-1), a);
    return hn::IfThenElse(hn::Gt(a, number(0)), number(1), negative);
  }

  static HWY_INLINE Word word(std::uint32_t x) { return hn::Set(Words(), x); }
  static HWY_INLINE Word bits(Number a) { return hn::BitCast(Words(), a); }
  static HWY_INLINE Number from_bits(Word a) { return hn::BitCast(Floats(), a); }
  static HWY_INLINE Word add(Word a, Word b) { return hn::Add(a, b); }
  static HWY_INLINE Word sub(Word a, Word b) { return hn::Sub(a, b); }
  static HWY_INLINE Word mul(Word a, Word b) { return hn::Mul(a, b); }
  static HWY_INLINE Word min(Word a, Word b) { return hn::Min(a, b); }
  static HWY_INLINE Word max(Word a, Word b) { return hn::Max(a, b); }
  static HWY_INLINE Word bit_and(Word a, Word b) { return hn::And(a, b); }
  static HWY_INLINE Word bit_or(Word a, Word b) { return hn::Or(a, b); }
  static HWY_INLINE Word bit_xor(Word a, Word b) { return hn::Xor(a, b); }
  // `a` where `x` is below `limit`; both are below 2^31.
  static HWY_INLINE Word zero_unless_below(Word x, Word limit, Word a) {
    const hn::RebindToSigned<Floats> integers;
    const auto below = hn::Lt(hn::BitCast(integers, x), hn::BitCast(integers, limit));
    return hn::BitCast(Words(), hn::IfThenElseZero(below, hn::BitCast(integers, a)));
  }
  template <int kBits>
  static HWY_INLINE Word shift_left(Word a) {
    return hn::ShiftLeft<kBits>(a);
  }
  template <int kBits>
  static HWY_INLINE Word shift_right(Word a) {
    return hn::ShiftRight<kBits>(a);
  }
};
using Number = Lanes::Number;
using Word = Lanes::Word;

// Bytes, one a lane: with the sign of each in all of the lane's high bits, or with zeros there.
HWY_INLINE Word load_signed(const std::uint8_t* from) {
  const auto* bytes = reinterpret_cast<const std::int8_t*>(from);
  const hn::RebindToSigned<Floats> integers;
  return hn::BitCast(Words(), hn::PromoteTo(integers, hn::LoadU(hn::Rebind<std::int8_t, Floats>(),
                                                                bytes)));
}
HWY_INLINE Word load_unsigned(const std::uint8_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<std::uint8_t, Floats>(), from));
}
// The low 8 or 16 bits of each lane.
template <class T>
HWY_INLINE void store_words(Word words, T* to) {
  const hn::Rebind<T, Floats> narrow;
  hn::StoreU(hn::TruncateTo(narrow, words), narrow, to);
}
HWY_INLINE std::uint16_t* words_of(bf16* at) { return reinterpret_cast<std::uint16_t*>(at); }

HWY_INLINE Number load_master(const float* weight, const std::int16_t*) { return load(weight); }
HWY_INLINE void store_master(Number master, float* weight, std::int16_t*) { store(master, weight); }

HWY_INLINE Number load_master(const bf16* weight, const std::int16_t* low) {
  const hn::RebindToSigned<Floats> integers;
  const auto rest = hn::PromoteTo(integers, hn::LoadU(hn::Rebind<std::int16_t, Floats>(), low));
  return Lanes::from_bits(Lanes::add(Lanes::bits(load(weight)), hn::BitCast(Words(), rest)));
}
HWY_INLINE void store_master(Number master, bf16* weight, std::int16_t* low) {
  const Word bits = Lanes::bits(master);
  const Word rounded = Lanes::add(bits, Lanes::word(0x8000u));
  store_words(Lanes::shift_right<16>(rounded), words_of(weight));
  store_words(bits, reinterpret_cast<std::uint16_t*>(low));
}

// The random bits of a span's elements from its i-th on.
struct Dice {
  std::uint32_t start;
  std::uint32_t middle;

  Dice(const StateSpan& span, const AdamWStep& step) {
    const RoundingKey key = rounding_key(step.rounding_key, span.tensor_key);
    start = static_cast<std::uint32_t>(span.first_element) * kElementFactor + key.start;
    middle = key.middle;
  }
  HWY_INLINE Word roll(std::int64_t i) const {
    const Word steps = Lanes::mul(hn::Iota(Words(), 0), Lanes::word(kElementFactor));
    const std::uint32_t first = static_cast<std::uint32_t>(i) * kElementFactor + start;
    return scramble<Lanes>(Lanes::add(steps, Lanes::word(first)), middle);
  }
};

// The formats. open() comes before a block's first load, close() after its last store; a format
// whose elements do not know of each other stores them at once.
template <int kPlanes>
struct ExactMoments {
  static constexpr std::int64_t kBytes = 4;
  float* first;
  float* second;

  template <class S>
  ExactMoments(const StateSpan& span, const S&)
      : first(static_cast<float*>(span.first)), second(static_cast<float*>(span.second)) {}
  HWY_INLINE void open(std::int64_t) {}
  HWY_INLINE void load_at(std::int64_t i, Number& m, Number& v) const {
    m = load(first + i);
    v = kPlanes == 2 ? load(second + i) : m;
  }
  HWY_INLINE void store_at(std::int64_t i, Number m, Number v) {
    store(m, first + i);
    if (kPlanes == 2) store(v, second + i);
  }
  HWY_INLINE void close(std::int64_t) {}
};

struct Bf16Moments {
  static constexpr std::int64_t kBytes = 2;
  bf16* first;
  bf16* second;
  Dice dice;

  Bf16Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<bf16*>(span.first)),
        second(static_cast<bf16*>(span.second)),
        dice(span, step) {}
  HWY_INLINE void open(std::int64_t) {}
  HWY_INLINE void load_at(std::int64_t i, Number& m, Number& v) const {
    m = load(first + i);
    v = load(second + i);
  }
  HWY_INLINE void store_at(std::int64_t i, Number m, Number v) {
    const Word random = dice.roll(i);
    const Word low = Lanes::bit_and(random, Lanes::word(0xffffu));
    store_words(rounded_high_half<Lanes>(m, Lanes::shift_right<16>(random)), words_of(first + i));
    store_words(rounded_high_half<Lanes>(v, low), words_of(second + i));
  }
  HWY_INLINE void close(std::int64_t) {}
};

HWY_INLINE std::uint32_t largest_lane(Word words) {
  return hn::GetLane(hn::MaxOfLanes(Words(), words));
}

// A block's new moments wait in the first-level cache until its largest are known.
struct Int8Moments {
  static constexpr std::int64_t kBytes = 1;
  std::uint8_t* first;
  std::uint8_t* second;
  std::uint8_t* scales;
  Dice dice;
  std::uint32_t first_floor = 0;
  std::uint32_t second_floor = 0;
  HWY_ALIGN float new_first[kStateBlock];
  HWY_ALIGN float new_second[kStateBlock];

  Int8Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<std::uint8_t*>(span.first)),
        second(static_cast<std::uint8_t*>(span.second)),
        scales(span.scales),
        dice(span, step) {}
  HWY_INLINE void open(std::int64_t block) {
    first_floor = std::uint32_t{scales[2 * block]} << 23;
    second_floor = std::uint32_t{scales[2 * block + 1]} << 23;
  }
  HWY_INLINE void load_at(std::int64_t i, Number& m, Number& v) const {
    m = decoded_first<Lanes>(load_signed(first + i), Lanes::word(first_floor));
    v = decoded_second<Lanes>(load_unsigned(second + i), Lanes::word(second_floor));
  }
  HWY_INLINE void store_at(std::int64_t i, Number m, Number v) {
    store(m, new_first + i % kStateBlock);
    store(v, new_second + i % kStateBlock);
  }
  static void forget(std::uint8_t* codes, std::int64_t block) {
    std::memset(codes + block * kStateBlock, 0, kStateBlock);
  }
  HWY_INLINE void close(std::int64_t block) {
    const Word magnitude = Lanes::word(0x7fffffffu);
    Word most_first = Lanes::word(0);
    Word most_second = Lanes::word(0);
    for (std::int64_t j = 0; j < kStateBlock; j += lanes()) {
      const Word m = Lanes::bits(load(new_first + j));
      const Word v = Lanes::bits(load(new_second + j));
      most_first = Lanes::max(most_first, Lanes::bit_and(m, magnitude));
      most_second = Lanes::max(most_second, Lanes::bit_and(v, magnitude));
    }
    const std::uint8_t first_scale = block_scale(kFirstCode, largest_lane(most_first));
    const std::uint8_t second_scale = block_scale(kSecondCode, largest_lane(most_second));
    scales[2 * block] = first_scale;
    scales[2 * block + 1] = second_scale;
    const Word first_from = Lanes::word(std::uint32_t{first_scale} << 23);
    const Word second_from = Lanes::word(std::uint32_t{second_scale} << 23);
    for (std::int64_t j = 0; j < kStateBlock; j += lanes()) {
      const std::int64_t i = block * kStateBlock + j;
      const Word random = dice.roll(i);
      store_words(encoded_first<Lanes>(load(new_first + j), first_from, random), first + i);
      store_words(encoded_second<Lanes>(load(new_second + j), second_from, random), second + i);
    }
    if (HWY_UNLIKELY(first_scale == kNoScale)) forget(first, block);
    if (HWY_UNLIKELY(second_scale == kNoScale)) forget(second, block);
  }
};

// `count` is a multiple of the states' block. `step` comes by value: through a reference it could
// alias the planes, and its vectors would be made anew for every store.
template <class Weight, class Gradient, class Moments, class S>
void update_blocks(const StateSpan& span, const S step, float scale) {
  auto* weight = static_cast<Weight*>(span.weight);
  auto* gradient = static_cast<const Gradient*>(span.gradient);
  std::int16_t* low = span.low;
  Moments moments(span, step);
  const std::int64_t blocks = span.count / kStateBlock;
  for (std::int64_t block = 0; block < blocks; ++block) {
    moments.open(block);
    const std::int64_t end = (block + 1) * kStateBlock;
    for (std::int64_t i = block * kStateBlock; i < end; i += lanes()) {
      Number m, v;
      moments.load_at(i, m, v);
      std::int16_t* const rest = std::is_same_v<Weight, bf16> ? low + i : nullptr;
      Number p = load_master(weight + i, rest);
      apply<Lanes>(step, p, Lanes::mul(load(gradient + i), Lanes::number(scale)), m, v);
      store_master(p, weight + i, rest);
      moments.store_at(i, m, v);
    }
    moments.close(block);
  }
}

template <class Moments, class S>
void update_types(const StateSpan& span, const S& step, float scale) {
  const bool short_gradient = span.gradient_type == DType::bf16;
  if (span.weight_type == DType::bf16) {
    short_gradient ? update_blocks<bf16, bf16, Moments>(span, step, scale)
                   : update_blocks<bf16, float, Moments>(span, step, scale);
  } else {
    short_gradient ? update_blocks<float, bf16, Moments>(span, step, scale)
                   : update_blocks<float, float, Moments>(span, step, scale);
  }
}

template <class S>
bool update_if(const StateSpan& span, const Step& step, float scale) {
  const S* numbers = std::get_if<S>(&step);
  if (numbers == nullptr) return false;
  update_types<ExactMoments<kMoments<S>>>(span, *numbers, scale);
  return true;
}

void update_whole(const StateSpan& span, const Step& step, float scale) {
  if (span.format == StateFormat::bf16) {
    update_types<Bf16Moments>(span, std::get<AdamWStep>(step), scale);
  } else if (span.format == StateFormat::int8) {
    update_types<Int8Moments>(span, std::get<AdamWStep>(step), scale);
  } else {
    update_if<AdamWStep>(span, step, scale) || update_if<AdamStep>(span, step, scale) ||
        update_if<LionStep>(span, step, scale) || update_if<SgdStep>(span, step, scale) ||
        update_if<AdagradStep>(span, step, scale);
  }
}

// Copies planes of fewer than a block's elements to memory for a whole block, and back.
struct PaddedBlock {
  HWY_ALIGN std::byte planes[5][kStateBlock * sizeof(float)] = {};
  StateSpan padded;

  explicit PaddedBlock(const StateSpan& span) : padded(span) {
    padded.count = kStateBlock;
    padded.weight = copied(0, span.weight, size_of(span.weight_type), span.count);
    padded.low = static_cast<std::int16_t*>(copied(1, span.low, 2, span.count));
    padded.first = copied(2, span.first, moment_bytes(span.format), span.count);
    padded.second = copied(3, span.second, moment_bytes(span.format), span.count);
    padded.gradient = copied(4, span.gradient, size_of(span.gradient_type), span.count);
  }
  void copy_back(const StateSpan& to) const {
    const auto back = [&](int plane, void* at, Bytes element) {
      if (at != nullptr) std::memcpy(at, planes[plane], static_cast<std::size_t>(to.count * element));
    };
    back(0, to.weight, size_of(to.weight_type));
    back(1, to.low, 2);
    back(2, to.first, moment_bytes(to.format));
    back(3, to.second, moment_bytes(to.format));
  }

 private:
  void* copied(int plane, const void* from, Bytes element, std::int64_t count) {
    if (from == nullptr) return nullptr;
    return std::memcpy(planes[plane], from, static_cast<std::size_t>(count * element));
  }
};

void update_piece(const StateSpan& span, const Step& step, float scale) {
  const std::int64_t whole = span.count / kStateBlock * kStateBlock;
  if (whole > 0) update_whole(part_of(span, 0, whole), step, scale);
  if (whole == span.count) return;
  const StateSpan rest = part_of(span, whole, span.count - whole);
  const PaddedBlock block(rest);
  update_whole(block.padded, step, scale);
  block.copy_back(rest);
}

#else  // Highway's MulAdd would round twice here, or its division is approximate.

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

void CpuOptimizerOps::update(const StateSpan& span, const Step& step, const StepScale* scale) {
  check_span(span, step);
  if (scale->apply == 0) return;
  const float gradient_scale = scale->gradient_scale;
  for_pieces(pool_, span.count, [&](std::int64_t start, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(update_piece)(part_of(span, start, count), step, gradient_scale);
  });
}

}  // namespace ebb::kernels
#endif  // HWY_ONCE
