// What the vectors of the update are made of: the arithmetic of update_arithmetic-inl.h on four
// vectors at once, and how planes become such fours. It has no guard and no namespace of its own:
// optimizer_update.cpp includes it in its own, once per instruction set.
//
// Four at once, because square roots and divisions take long: the four of a kind follow each other,
// and the processor has work until they are done (a fifth faster on AVX2 than one vector after the
// other). They are the elements that share random numbers and words of codes: a run of two vectors
// from a block's first half and, 64 elements on, the same run of its second.

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::CappedTag<float, 16>;  // a state block has whole vectors of four codes
using Words = hn::RebindToUnsigned<Floats>;
using Integers = hn::RebindToSigned<Floats>;
using Vector = hn::Vec<Floats>;
using VectorWord = hn::Vec<Words>;

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Floats())); }

HWY_INLINE VectorWord word(std::uint32_t x) { return hn::Set(Words(), x); }
HWY_INLINE VectorWord bits_of(Vector a) { return hn::BitCast(Words(), a); }
HWY_INLINE Vector from_bits(VectorWord a) { return hn::BitCast(Floats(), a); }
HWY_INLINE VectorWord high_half(VectorWord a) { return hn::And(a, word(0xffff0000u)); }
// The bytes of `a` where `mask` has ones, else those of `b`.
HWY_INLINE VectorWord merged(std::uint32_t mask, VectorWord a, VectorWord b) {
  return hn::IfVecThenElse(word(mask), a, b);
}

HWY_INLINE VectorWord load_words(const void* from) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  return hn::BitCast(Words(), hn::LoadU(bytes, static_cast<const std::uint8_t*>(from)));
}
HWY_INLINE void store_words(VectorWord words, void* to) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  hn::StoreU(hn::BitCast(bytes, words), bytes, static_cast<std::uint8_t*>(to));
}

// The halves of words as numbers of their own: two elements of 16 bits at the price of one.
struct Halves {
  using Signed = hn::Repartition<std::int16_t, Words>;
  using Unsigned = hn::Repartition<std::uint16_t, Words>;

  static HWY_INLINE VectorWord add(VectorWord a, VectorWord b) {
    return hn::BitCast(Words(), hn::Add(hn::BitCast(Unsigned(), a), hn::BitCast(Unsigned(), b)));
  }
  static HWY_INLINE VectorWord sub(VectorWord a, VectorWord b) {
    return hn::BitCast(Words(), hn::Sub(hn::BitCast(Unsigned(), a), hn::BitCast(Unsigned(), b)));
  }
  static HWY_INLINE VectorWord sub_to_zero(VectorWord a, VectorWord b) {
    return hn::BitCast(Words(),
                       hn::SaturatedSub(hn::BitCast(Unsigned(), a), hn::BitCast(Unsigned(), b)));
  }
  template <int kBits>
  static HWY_INLINE VectorWord shift_right_signed(VectorWord a) {
    return hn::BitCast(Words(), hn::ShiftRight<kBits>(hn::BitCast(Signed(), a)));
  }
#if HWY_TARGET <= HWY_AVX3  // one operation puts halves of two vectors anywhere
  // Words whose halves are the high halves of two vectors.
  static HWY_INLINE VectorWord high(VectorWord low_ones, VectorWord high_ones) {
    return looked_up(low_ones, high_ones, odd_places());
  }
  // And their low halves.
  static HWY_INLINE VectorWord low(VectorWord low_ones, VectorWord high_ones) {
    return looked_up(low_ones, high_ones, hn::Sub(odd_places(), hn::Set(Unsigned(), 1)));
  }

 private:
  // 1, 1 of the other vector, 3, 3 of the other, and so on.
  static HWY_INLINE hn::Vec<Unsigned> odd_places() {
    const Unsigned d;
    const VectorWord step = hn::Mul(hn::Iota(Words(), 0), word(0x20002u));
    const auto other = static_cast<std::uint32_t>(hn::Lanes(d)) << 16;
    return hn::BitCast(d, hn::Add(step, word(other + 0x10001u)));
  }
  static HWY_INLINE VectorWord looked_up(VectorWord a, VectorWord b, hn::Vec<Unsigned> places) {
    return VectorWord{_mm512_permutex2var_epi16(a.raw, places.raw, b.raw)};
  }
#else
  static HWY_INLINE VectorWord high(VectorWord low_ones, VectorWord high_ones) {
    return hn::Or(hn::ShiftRight<16>(low_ones), high_half(high_ones));
  }
  static HWY_INLINE VectorWord low(VectorWord low_ones, VectorWord high_ones) {
    return merged(0xffffu, low_ones, hn::ShiftLeft<16>(high_ones));
  }
#endif
};

template <class T>
struct Four {
  T a, b, c, d;
};

struct Lanes {
  using Number = Four<Vector>;
  using Word = Four<VectorWord>;

#define EBB_EACH1(f, x) \
  { f(x.a), f(x.b), f(x.c), f(x.d) }
#define EBB_EACH2(f, x, y) \
  { f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d) }
#define EBB_EACH3(f, x, y, z) \
  { f(x.a, y.a, z.a), f(x.b, y.b, z.b), f(x.c, y.c, z.c), f(x.d, y.d, z.d) }

  static HWY_INLINE Number number(float x) {
    const Vector v = hn::Set(Floats(), x);
    return {v, v, v, v};
  }
  static HWY_INLINE Number add(Number x, Number y) { return EBB_EACH2(hn::Add, x, y); }
  static HWY_INLINE Number sub(Number x, Number y) { return EBB_EACH2(hn::Sub, x, y); }
  static HWY_INLINE Number mul(Number x, Number y) { return EBB_EACH2(hn::Mul, x, y); }
  static HWY_INLINE Number div(Number x, Number y) { return EBB_EACH2(hn::Div, x, y); }
  static HWY_INLINE Number fma(Number x, Number y, Number z) {
    return EBB_EACH3(hn::MulAdd, x, y, z);
  }
  static HWY_INLINE Number fms(Number x, Number y, Number z) {
    return EBB_EACH3(hn::MulSub, x, y, z);
  }
  static HWY_INLINE Number sqrt(Number x) { return EBB_EACH1(hn::Sqrt, x); }
  static HWY_INLINE Number sign(Number x) { return EBB_EACH1(sign_of, x); }

  static HWY_INLINE Word word(std::uint32_t x) {
    const VectorWord v = hn::Set(Words(), x);
    return {v, v, v, v};
  }
  static HWY_INLINE Word bits(Number x) { return EBB_EACH1(bits_of, x); }
  static HWY_INLINE Word add(Word x, Word y) { return EBB_EACH2(hn::Add, x, y); }
  static HWY_INLINE Word bit_and(Word x, Word y) { return EBB_EACH2(hn::And, x, y); }
  // `a` where `x` is below `limit`; both are below 2^31.
  static HWY_INLINE Word zero_unless_below(Word x, Word limit, Word a) {
    return EBB_EACH3(kept_below, x, limit, a);
  }

 private:
  static HWY_INLINE Vector sign_of(Vector a) {
    const Vector zero = hn::Zero(Floats());
    const Vector one = hn::Set(Floats(), 1.0f);
    const Vector negative = hn::IfThenElse(hn::Lt(a, zero), hn::Neg(one), a);
    return hn::IfThenElse(hn::Gt(a, zero), one, negative);
  }
  static HWY_INLINE VectorWord kept_below(VectorWord x, VectorWord limit, VectorWord a) {
    const auto below = hn::Lt(hn::BitCast(Integers(), x), hn::BitCast(Integers(), limit));
    return hn::BitCast(Words(), hn::IfThenElseZero(below, hn::BitCast(Integers(), a)));
  }
#undef EBB_EACH1
#undef EBB_EACH2
#undef EBB_EACH3
};
using Number = Lanes::Number;
using Word = Lanes::Word;

// How far behind its first half a block's second is.
inline constexpr std::int64_t kHalfBlock = kStateBlock / 2;

// The orders of lanes. InRow: of each half's two vectors the second follows the first.
struct InRow {
  template <class T>
  static HWY_INLINE Number load(const T* from) {
    return {load_one(from), load_one(from + lanes()), load_one(from + kHalfBlock),
            load_one(from + kHalfBlock + lanes())};
  }
  static HWY_INLINE void store(Number x, float* to) {
    hn::StoreU(x.a, Floats(), to);
    hn::StoreU(x.b, Floats(), to + lanes());
    hn::StoreU(x.c, Floats(), to + kHalfBlock);
    hn::StoreU(x.d, Floats(), to + kHalfBlock + lanes());
  }
  static HWY_INLINE Number load_masters(const float* weight, const std::int16_t*) {
    return load(weight);
  }
  static HWY_INLINE Number load_masters(const bf16* weight, const std::int16_t* low) {
    const std::int64_t n = lanes();
    const std::int64_t h = kHalfBlock;
    return {master(weight, low), master(weight + n, low + n), master(weight + h, low + h),
            master(weight + h + n, low + h + n)};
  }
  static HWY_INLINE void store_masters(Number p, float* weight, std::int16_t*) { store(p, weight); }
  static HWY_INLINE void store_masters(Number p, bf16* weight, std::int16_t* low) {
    const std::int64_t n = lanes();
    const std::int64_t h = kHalfBlock;
    store_master(p.a, weight, low);
    store_master(p.b, weight + n, low + n);
    store_master(p.c, weight + h, low + h);
    store_master(p.d, weight + h + n, low + h + n);
  }

 private:
  using Shorts = hn::Rebind<std::uint16_t, Floats>;
  static HWY_INLINE Vector load_one(const float* from) { return hn::LoadU(Floats(), from); }
  static HWY_INLINE Vector load_one(const bf16* from) { return from_bits(load_high(from)); }
  static HWY_INLINE VectorWord load_high(const bf16* from) {
    const auto* shorts = reinterpret_cast<const std::uint16_t*>(from);
    return hn::ShiftLeft<16>(hn::PromoteTo(Words(), hn::LoadU(Shorts(), shorts)));
  }
  static HWY_INLINE Vector master(const bf16* weight, const std::int16_t* low) {
    const hn::Rebind<std::int16_t, Floats> shorts;
    const auto rest = hn::PromoteTo(Integers(), hn::LoadU(shorts, low));
    return from_bits(hn::Add(load_high(weight), hn::BitCast(Words(), rest)));
  }
  static HWY_INLINE void store_low(VectorWord words, void* to) {
    hn::StoreU(hn::TruncateTo(Shorts(), words), Shorts(), static_cast<std::uint16_t*>(to));
  }
  static HWY_INLINE void store_master(Vector master, bf16* weight, std::int16_t* low) {
    store_low(hn::ShiftRight<16>(hn::Add(bits_of(master), word(0x8000u))), weight);
    store_low(bits_of(master), low);
  }
};

// By turns: of each half the even elements are the first vector, the odd ones the second. Two of 16
// bits are then a word whose halves a shift and a mask take apart, without the shuffles of InRow;
// fp32 has the shuffles instead.
struct ByTurns {
  static HWY_INLINE Number load(const float* from) {
    Number x;
    hn::LoadInterleaved2(Floats(), from, x.a, x.b);
    hn::LoadInterleaved2(Floats(), from + kHalfBlock, x.c, x.d);
    return x;
  }
  static HWY_INLINE Number load(const bf16* from) {
    const VectorWord x = load_words(from);
    const VectorWord y = load_words(from + kHalfBlock);
    return {from_bits(hn::ShiftLeft<16>(x)), from_bits(high_half(x)),
            from_bits(hn::ShiftLeft<16>(y)), from_bits(high_half(y))};
  }
  static HWY_INLINE Number load_masters(const float* weight, const std::int16_t*) {
    return load(weight);
  }
  static HWY_INLINE Number load_masters(const bf16* weight, const std::int16_t* low) {
    const VectorWord low_1 = load_words(low);
    const VectorWord low_2 = load_words(low + kHalfBlock);
    const VectorWord high_1 = Halves::add(load_words(weight), sign_of(low_1));
    const VectorWord high_2 = Halves::add(load_words(weight + kHalfBlock), sign_of(low_2));
    return {from_bits(Halves::low(low_1, high_1)), from_bits(Halves::high(low_1, high_1)),
            from_bits(Halves::low(low_2, high_2)), from_bits(Halves::high(low_2, high_2))};
  }
  static HWY_INLINE void store_masters(Number p, float* weight, std::int16_t*) {
    hn::StoreInterleaved2(p.a, p.b, Floats(), weight);
    hn::StoreInterleaved2(p.c, p.d, Floats(), weight + kHalfBlock);
  }
  static HWY_INLINE void store_masters(Number p, bf16* weight, std::int16_t* low) {
    const Word x = Lanes::bits(p);
    const VectorWord low_1 = Halves::low(x.a, x.b);
    const VectorWord low_2 = Halves::low(x.c, x.d);
    store_words(Halves::sub(Halves::high(x.a, x.b), sign_of(low_1)), weight);
    store_words(Halves::sub(Halves::high(x.c, x.d), sign_of(low_2)), weight + kHalfBlock);
    store_words(low_1, low);
    store_words(low_2, low + kHalfBlock);
  }
  static HWY_INLINE void store_high(Word x, bf16* to) {
    store_words(Halves::high(x.a, x.b), to);
    store_words(Halves::high(x.c, x.d), to + kHalfBlock);
  }

 private:
  // A master is its halves side by side, but that a negative low half borrows one from the high.
  static HWY_INLINE VectorWord sign_of(VectorWord low) {
    return Halves::shift_right_signed<15>(low);
  }
};
