// Compiled once per instruction set (Highway includes this file again and again); the member at the
// end cuts an update into pieces and sends them to the best set the processor has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer_update.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/highway.h"

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

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;  // a state block has whole vectors of four codes
using Words = hn::RebindToUnsigned<Floats>;
using Integers = hn::RebindToSigned<Floats>;

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

struct Lanes {
  using Number = hn::Vec<Floats>;
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
  static HWY_INLINE Word max(Word a, Word b) { return hn::Max(a, b); }
  static HWY_INLINE Word bit_and(Word a, Word b) { return hn::And(a, b); }
  static HWY_INLINE Word bit_or(Word a, Word b) { return hn::Or(a, b); }
  static HWY_INLINE Word bit_xor(Word a, Word b) { return hn::Xor(a, b); }
  // `a` where `x` is below `limit`; both are below 2^31.
  static HWY_INLINE Word zero_unless_below(Word x, Word limit, Word a) {
    const auto below = hn::Lt(hn::BitCast(Integers(), x), hn::BitCast(Integers(), limit));
    return hn::BitCast(Words(), hn::IfThenElseZero(below, hn::BitCast(Integers(), a)));
  }
  // The bits of `a` where `mask` has ones, else those of `b`.
  static HWY_INLINE Word select(Word mask, Word a, Word b) { return hn::IfVecThenElse(mask, a, b); }
  static HWY_INLINE Number with_sign(Number magnitude, Number a) {
    return hn::CopySignToAbs(magnitude, a);
  }
  template <int kBits>
  static HWY_INLINE Word shift_left(Word a) {
    return hn::ShiftLeft<kBits>(a);
  }
  template <int kBits>
  static HWY_INLINE Word shift_right(Word a) {
    return hn::ShiftRight<kBits>(a);
  }
  template <int kBits>
  static HWY_INLINE Word shift_right_signed(Word a) {
    return hn::BitCast(Words(), hn::ShiftRight<kBits>(hn::BitCast(Integers(), a)));
  }
};
using Number = Lanes::Number;
using Word = Lanes::Word;

HWY_INLINE Word high_half(Word word) { return Lanes::bit_and(word, Lanes::word(0xffff0000u)); }
HWY_INLINE Word low_half(Word word) { return Lanes::bit_and(word, Lanes::word(0xffffu)); }

// The planes' elements come and go two vectors at a time. InRow: the second follows the first.
struct InRow {
  static HWY_INLINE void load(const float* from, Number& a, Number& b) {
    a = hn::LoadU(Floats(), from);
    b = hn::LoadU(Floats(), from + lanes());
  }
  static HWY_INLINE void load(const bf16* from, Number& a, Number& b) {
    a = Lanes::from_bits(load_high(from));
    b = Lanes::from_bits(load_high(from + lanes()));
  }
  static HWY_INLINE void load_masters(const float* weight, const std::int16_t*, Number& a,
                                      Number& b) {
    load(weight, a, b);
  }
  static HWY_INLINE void load_masters(const bf16* weight, const std::int16_t* low, Number& a,
                                      Number& b) {
    a = Lanes::from_bits(Lanes::add(load_high(weight), load_low(low)));
    b = Lanes::from_bits(Lanes::add(load_high(weight + lanes()), load_low(low + lanes())));
  }
  static HWY_INLINE void store(Number a, Number b, float* to) {
    hn::StoreU(a, Floats(), to);
    hn::StoreU(b, Floats(), to + lanes());
  }
  static HWY_INLINE void store_masters(Number a, Number b, float* weight, std::int16_t*) {
    store(a, b, weight);
  }
  static HWY_INLINE void store_masters(Number a, Number b, bf16* weight, std::int16_t* low) {
    store_master(a, weight, low);
    store_master(b, weight + lanes(), low + lanes());
  }

 private:
  using Halves = hn::Rebind<std::uint16_t, Floats>;
  static HWY_INLINE Word load_high(const bf16* from) {
    const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
    return Lanes::shift_left<16>(hn::PromoteTo(Words(), hn::LoadU(Halves(), bits)));
  }
  static HWY_INLINE Word load_low(const std::int16_t* from) {
    const hn::Rebind<std::int16_t, Floats> halves;
    return hn::BitCast(Words(), hn::PromoteTo(Integers(), hn::LoadU(halves, from)));
  }
  static HWY_INLINE void store_low(Word words, void* to) {
    hn::StoreU(hn::TruncateTo(Halves(), words), Halves(), static_cast<std::uint16_t*>(to));
  }
  static HWY_INLINE void store_master(Number master, bf16* weight, std::int16_t* low) {
    const Word bits = Lanes::bits(master);
    store_low(Lanes::shift_right<16>(Lanes::add(bits, Lanes::word(0x8000u))), weight);
    store_low(bits, low);
  }
};

HWY_INLINE Word load_words(const void* from) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  return hn::BitCast(Words(), hn::LoadU(bytes, static_cast<const std::uint8_t*>(from)));
}
HWY_INLINE void store_words(Word words, void* to) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  hn::StoreU(hn::BitCast(bytes, words), bytes, static_cast<std::uint8_t*>(to));
}

// By turns: the even elements are the first vector, the odd ones the second. Two of 16 bits are
// then a word whose halves a shift and a mask take apart, without the shuffles of InRow; fp32 has
// the shuffles instead.
struct ByTurns {
  static HWY_INLINE void load(const float* from, Number& even, Number& odd) {
    hn::LoadInterleaved2(Floats(), from, even, odd);
  }
  static HWY_INLINE void load(const bf16* from, Number& even, Number& odd) {
    const Word words = load_words(from);
    even = Lanes::from_bits(Lanes::shift_left<16>(words));
    odd = Lanes::from_bits(high_half(words));
  }
  static HWY_INLINE void load_masters(const float* weight, const std::int16_t*, Number& even,
                                      Number& odd) {
    load(weight, even, odd);
  }
  // With the sign bit of a low half flipped it counts from -2^15, and the halves lie side by side.
  static HWY_INLINE void load_masters(const bf16* weight, const std::int16_t* low, Number& even,
                                      Number& odd) {
    const Word high = load_words(weight);
    const Word rest = Lanes::bit_xor(load_words(low), Lanes::word(0x80008000u));
    const Word from = Lanes::word(0x8000u);
    const Word evens = Lanes::bit_or(Lanes::shift_left<16>(high), low_half(rest));
    const Word odds = Lanes::bit_or(high_half(high), Lanes::shift_right<16>(rest));
    even = Lanes::from_bits(Lanes::sub(evens, from));
    odd = Lanes::from_bits(Lanes::sub(odds, from));
  }
  // The high halves of both.
  static HWY_INLINE void store_high(Word even, Word odd, bf16* to) {
    store_words(Lanes::bit_or(Lanes::shift_right<16>(even), high_half(odd)), to);
  }
  static HWY_INLINE void store_masters(Number even, Number odd, float* weight, std::int16_t*) {
    hn::StoreInterleaved2(even, odd, Floats(), weight);
  }
  static HWY_INLINE void store_masters(Number even, Number odd, bf16* weight, std::int16_t* low) {
    const Word half = Lanes::word(0x8000u);
    const Word evens = Lanes::bits(even);
    const Word odds = Lanes::bits(odd);
    store_high(Lanes::add(evens, half), Lanes::add(odds, half), weight);
    store_words(Lanes::bit_or(low_half(evens), Lanes::shift_left<16>(odds)), low);
  }
};

// The random bits of every other element of a span, from its i-th on, which is of the first half of
// a block; the elements 64 behind have the same.
struct Dice {
  std::uint32_t start;
  std::uint32_t middle;

  Dice(const StateSpan& span, const AdamWStep& step) {
    const RoundingKey key = rounding_key(step.rounding_key, span.tensor_key);
    start = static_cast<std::uint32_t>(span.first_element) * kElementFactor + key.start;
    middle = key.middle;
  }
  HWY_INLINE Word roll(std::int64_t i) const {
    const Word steps = Lanes::mul(hn::Iota(Words(), 0), Lanes::word(2 * kElementFactor));
    const std::uint32_t first = static_cast<std::uint32_t>(i) * kElementFactor + start;
    return scramble<Lanes>(Lanes::add(steps, Lanes::word(first)), middle);
  }
  // What the moments of a block's first half, or of its second, round with.
  template <int kHalf, int kBits>
  static HWY_INLINE Word for_first(Word random) {
    return kHalf == 0 ? Lanes::shift_right<32 - kBits>(random)
                      : Lanes::bit_and(random, Lanes::word((1u << kBits) - 1));
  }
  template <int kHalf, int kBits>
  static HWY_INLINE Word for_second(Word random) {
    return for_first<1 - kHalf, kBits>(random);
  }
};

// Where the walk through a span's blocks is: at two vectors from word `word` of a block's 32 codes
// on, in the block's first half (64 elements) or its second.
template <int kWhichHalf>
struct Place {
  static constexpr int kHalf = kWhichHalf;
  std::int64_t block;
  std::int64_t word;

  HWY_INLINE std::int64_t element() const { return block * kStateBlock + kHalf * 64 + 2 * word; }
};

// The formats: how they order lanes, and how they load and store moments. open() comes before a
// block's first load, close() after its last store, with the bits of the largest moments that
// store() has seen; a format whose elements do not know of each other stores them at once.
template <int kPlanes>
struct ExactMoments {
  using Order = InRow;
  float* first;
  float* second;

  template <class S>
  ExactMoments(const StateSpan& span, const S&)
      : first(static_cast<float*>(span.first)), second(static_cast<float*>(span.second)) {}
  HWY_INLINE void open(std::int64_t) {}
  template <class At>
  HWY_INLINE void load(At at, Number& m0, Number& m1, Number& v0, Number& v1) {
    InRow::load(first + at.element(), m0, m1);
    if (kPlanes == 2) {
      InRow::load(second + at.element(), v0, v1);
    } else {
      v0 = v1 = m0;
    }
  }
  template <class At>
  HWY_INLINE void store(At at, Number m0, Number m1, Number v0, Number v1, Word&, Word&) {
    InRow::store(m0, m1, first + at.element());
    if (kPlanes == 2) InRow::store(v0, v1, second + at.element());
  }
  HWY_INLINE void close(std::int64_t, Word, Word) {}
};

struct Bf16Moments {
  using Order = ByTurns;
  bf16* first;
  bf16* second;
  Dice dice;

  Bf16Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<bf16*>(span.first)),
        second(static_cast<bf16*>(span.second)),
        dice(span, step) {}
  HWY_INLINE void open(std::int64_t) {}
  template <class At>
  HWY_INLINE void load(At at, Number& m0, Number& m1, Number& v0, Number& v1) {
    ByTurns::load(first + at.element(), m0, m1);
    ByTurns::load(second + at.element(), v0, v1);
  }
  template <class At>
  HWY_INLINE void store(At at, Number m0, Number m1, Number v0, Number v1, Word&, Word&) {
    const std::int64_t i = at.element();
    const Word even = dice.roll(i - At::kHalf * 64);
    const Word odd = dice.roll(i - At::kHalf * 64 + 1);
    ByTurns::store_high(rounded_bits<Lanes>(m0, Dice::for_first<At::kHalf, 16>(even)),
                        rounded_bits<Lanes>(m1, Dice::for_first<At::kHalf, 16>(odd)), first + i);
    ByTurns::store_high(rounded_bits<Lanes>(v0, Dice::for_second<At::kHalf, 16>(even)),
                        rounded_bits<Lanes>(v1, Dice::for_second<At::kHalf, 16>(odd)), second + i);
  }
  HWY_INLINE void close(std::int64_t, Word, Word) {}
};

// A block's new moments wait in the first-level cache until its largest are known, those that go
// into the same byte of their words in a row.
struct Int8Moments {
  using Order = ByTurns;
  static constexpr std::int64_t kBlockWords = kStateBlock / 4;
  std::uint8_t* first;
  std::uint8_t* second;
  std::uint8_t* scales;
  Dice dice;
  std::uint32_t first_floor = 0;
  std::uint32_t second_floor = 0;
  HWY_ALIGN float new_first[4][kBlockWords];
  HWY_ALIGN float new_second[4][kBlockWords];

  Int8Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<std::uint8_t*>(span.first)),
        second(static_cast<std::uint8_t*>(span.second)),
        scales(span.scales),
        dice(span, step) {}
  HWY_INLINE void open(std::int64_t block) {
    first_floor = std::uint32_t{scales[2 * block]} << 23;
    second_floor = std::uint32_t{scales[2 * block + 1]} << 23;
  }
  template <class At>
  HWY_INLINE void load(At at, Number& m0, Number& m1, Number& v0, Number& v1) {
    constexpr int kByte = 2 * At::kHalf;
    const std::int64_t code = at.block * kStateBlock + 4 * at.word;
    const Word firsts = load_words(first + code);
    const Word seconds = load_words(second + code);
    m0 = decoded_first<Lanes, kByte>(firsts, Lanes::word(first_floor));
    m1 = decoded_first<Lanes, kByte + 1>(firsts, Lanes::word(first_floor));
    v0 = decoded_second<Lanes, kByte>(seconds, Lanes::word(second_floor));
    v1 = decoded_second<Lanes, kByte + 1>(seconds, Lanes::word(second_floor));
  }
  template <class At>
  HWY_INLINE void store(At at, Number m0, Number m1, Number v0, Number v1, Word& most_first,
                        Word& most_second) {
    constexpr int kByte = 2 * At::kHalf;
    hn::Store(m0, Floats(), new_first[kByte] + at.word);
    hn::Store(m1, Floats(), new_first[kByte + 1] + at.word);
    hn::Store(v0, Floats(), new_second[kByte] + at.word);
    hn::Store(v1, Floats(), new_second[kByte + 1] + at.word);
    const Word firsts = Lanes::max(Lanes::bits(hn::Abs(m0)), Lanes::bits(hn::Abs(m1)));
    most_first = Lanes::max(most_first, firsts);
    const Word seconds = Lanes::max(Lanes::bits(hn::Abs(v0)), Lanes::bits(hn::Abs(v1)));
    most_second = Lanes::max(most_second, seconds);
  }
  HWY_INLINE void close(std::int64_t block, Word most_first, Word most_second) {
    const std::uint8_t first_scale = block_scale(kFirstCode, largest_lane(most_first));
    const std::uint8_t second_scale = block_scale(kSecondCode, largest_lane(most_second));
    scales[2 * block] = first_scale;
    scales[2 * block + 1] = second_scale;
    std::uint8_t* first_codes = first + block * kStateBlock;
    std::uint8_t* second_codes = second + block * kStateBlock;
    encode(block, std::uint32_t{first_scale} << 23, std::uint32_t{second_scale} << 23, first_codes,
           second_codes);
    if (HWY_UNLIKELY(first_scale == kNoScale)) std::memset(first_codes, 0, kStateBlock);
    if (HWY_UNLIKELY(second_scale == kNoScale)) std::memset(second_codes, 0, kStateBlock);
  }

 private:
  static HWY_INLINE std::uint32_t largest_lane(Word words) {
    return hn::GetLane(hn::MaxOfLanes(Words(), words));
  }
  template <int kByte>
  HWY_INLINE Word first_code(std::int64_t w, Word floor, Word random) const {
    const Number m = hn::Load(Floats(), new_first[kByte] + w);
    return encoded_first<Lanes, kByte>(m, floor,
                                       Dice::for_first<kByte / 2, kFirstCode.dropped>(random));
  }
  template <int kByte>
  HWY_INLINE Word second_code(std::int64_t w, Word floor, Word random) const {
    const Number v = hn::Load(Floats(), new_second[kByte] + w);
    return encoded_second<Lanes, kByte>(v, floor,
                                        Dice::for_second<kByte / 2, kSecondCode.dropped>(random));
  }
  HWY_INLINE void encode(std::int64_t block, std::uint32_t first_from, std::uint32_t second_from,
                         std::uint8_t* first_codes, std::uint8_t* second_codes) const {
    const Word floor = Lanes::word(first_from);
    const Word second = Lanes::word(second_from);
    for (std::int64_t w = 0; w < kBlockWords; w += lanes()) {
      const Word even = dice.roll(block * kStateBlock + 2 * w);
      const Word odd = dice.roll(block * kStateBlock + 2 * w + 1);
      store_words(gathered<Lanes>(first_code<0>(w, floor, even), first_code<1>(w, floor, odd),
                                  first_code<2>(w, floor, even), first_code<3>(w, floor, odd)),
                  first_codes + 4 * w);
      store_words(gathered<Lanes>(second_code<0>(w, second, even), second_code<1>(w, second, odd),
                                  second_code<2>(w, second, even), second_code<3>(w, second, odd)),
                  second_codes + 4 * w);
    }
  }
};

// The planes besides the moments, and the step. `step` is a copy: through a reference it could
// alias the planes, and its vectors would be made anew for every store.
template <class Weight, class Gradient, class S>
struct Walk {
  Weight* weight;
  std::int16_t* low;
  const Gradient* gradient;
  S step;
  float scale;

  template <class Moments, class At>
  HWY_INLINE void update(Moments& moments, At at, Word& most_first, Word& most_second) const {
    using Order = typename Moments::Order;
    const std::int64_t i = at.element();
    std::int16_t* const rest = std::is_same_v<Weight, bf16> ? low + i : nullptr;
    Number m0, m1, v0, v1, p0, p1, g0, g1;
    moments.load(at, m0, m1, v0, v1);
    Order::load_masters(weight + i, rest, p0, p1);
    Order::load(gradient + i, g0, g1);
    apply<Lanes>(step, p0, Lanes::mul(g0, Lanes::number(scale)), m0, v0);
    apply<Lanes>(step, p1, Lanes::mul(g1, Lanes::number(scale)), m1, v1);
    Order::store_masters(p0, p1, weight + i, rest);
    moments.store(at, m0, m1, v0, v1, most_first, most_second);
  }
};

// `count` is a multiple of the states' block.
template <class Weight, class Gradient, class Moments, class S>
void update_blocks(const StateSpan& span, const S& step, float scale) {
  const Walk<Weight, Gradient, S> walk{static_cast<Weight*>(span.weight), span.low,
                                       static_cast<const Gradient*>(span.gradient), step, scale};
  Moments moments(span, step);
  const std::int64_t blocks = span.count / kStateBlock;
  for (std::int64_t block = 0; block < blocks; ++block) {
    Word most_first = Lanes::word(0);
    Word most_second = Lanes::word(0);
    moments.open(block);
    for (std::int64_t w = 0; w < kStateBlock / 4; w += lanes()) {
      walk.update(moments, Place<0>{block, w}, most_first, most_second);
      walk.update(moments, Place<1>{block, w}, most_first, most_second);
    }
    moments.close(block, most_first, most_second);
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
