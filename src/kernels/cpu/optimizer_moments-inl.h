// The moments of the formats, in and out of vectors. Included as optimizer_lanes-inl.h is, after it
// and update_arithmetic-inl.h.

inline constexpr std::int64_t kBlockWords = kStateBlock / 4;

// Where the walk through a span's blocks is: at the four vectors that have the codes of `word` and
// the words behind it, of the 32 of a block.
struct Place {
  std::int64_t block;
  std::int64_t word;

  HWY_INLINE std::int64_t element() const { return block * kStateBlock + 2 * word; }
  HWY_INLINE std::int64_t code() const { return block * kStateBlock + 4 * word; }
};

// Takes denormals out of a block's moments, which were stored just now.
template <class Stored>
HWY_NOINLINE void drop_denormals(Stored* block) {
  for (std::int64_t i = 0; i < kStateBlock; ++i) block[i] = without_denormals(block[i]);
}

template <int kPlanes>
struct ExactMoments {
  float* first;
  float* second;

  explicit ExactMoments(const StateSpan& span)
      : first(static_cast<float*>(span.first)), second(static_cast<float*>(span.second)) {}
  template <class AnyFetch>
  HWY_INLINE void fetch(const AnyFetch& ahead, std::int64_t element) const {
    ahead(element, first);
    if constexpr (kPlanes == 2) ahead(element, second);
  }
  HWY_INLINE void load(Place at, Number& m, Number& v) const {
    m = InRow::load(first + at.element());
    v = kPlanes == 2 ? InRow::load(second + at.element()) : m;
  }
  HWY_INLINE void store(Place at, Number m, Number v) const {
    InRow::store(m, first + at.element());
    if (kPlanes == 2) InRow::store(v, second + at.element());
  }
  HWY_INLINE void drop_denormals_of(std::int64_t block) const {
    drop_denormals(first + block * kStateBlock);
    if constexpr (kPlanes == 2) drop_denormals(second + block * kStateBlock);
  }
};

// Words of one vector, for scramble().
template <class D>
struct OneVector {
  using Word = hn::Vec<D>;
  static HWY_INLINE Word word(std::uint32_t x) { return hn::Set(D(), x); }
  static HWY_INLINE Word mul(Word a, Word b) { return hn::Mul(a, b); }
  static HWY_INLINE Word bit_xor(Word a, Word b) { return hn::Xor(a, b); }
  template <int kBits>
  static HWY_INLINE Word shift_right(Word a) {
    return hn::ShiftRight<kBits>(a);
  }
};

// The random bits of the even and the odd elements of a place.
struct Dice {
  struct Rolled {
    VectorWord even, odd;
  };
  std::uint32_t start;
  std::uint32_t middle;

  Dice(const StateSpan& span, const AdamWStep& step) {
    const RoundingKey key = rounding_key(step.rounding_key, span.tensor_key);
    start = static_cast<std::uint32_t>(span.first_element) * kElementFactor + key.start;
    middle = key.middle;
  }
  HWY_INLINE Rolled roll(Place at) const {
    const VectorWord steps = hn::Mul(hn::Iota(Words(), 0), word(2 * kElementFactor));
    const auto element = static_cast<std::uint32_t>(at.element());
    const VectorWord even = hn::Add(steps, word(element * kElementFactor + start));
    return {scramble<OneVector<Words>>(even, middle),
            scramble<OneVector<Words>>(hn::Add(even, word(kElementFactor)), middle)};
  }
  // What the moments round with: in a block's first half the first takes the highest bits, in its
  // second half the lowest.
  template <int kBits>
  static HWY_INLINE Word for_first(Rolled x) {
    return {highest<kBits>(x.even), highest<kBits>(x.odd), lowest<kBits>(x.even),
            lowest<kBits>(x.odd)};
  }
  template <int kBits>
  static HWY_INLINE Word for_second(Rolled x) {
    return {lowest<kBits>(x.even), lowest<kBits>(x.odd), highest<kBits>(x.even),
            highest<kBits>(x.odd)};
  }

 private:
  template <int kBits>
  static HWY_INLINE VectorWord highest(VectorWord x) {
    return hn::ShiftRight<32 - kBits>(x);
  }
  template <int kBits>
  static HWY_INLINE VectorWord lowest(VectorWord x) {
    return hn::And(x, word((1u << kBits) - 1));
  }
};

struct Bf16Moments {
  bf16* first;
  bf16* second;
  Dice dice;

  Bf16Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<bf16*>(span.first)),
        second(static_cast<bf16*>(span.second)),
        dice(span, step) {}
  template <class AnyFetch>
  HWY_INLINE void fetch(const AnyFetch& ahead, std::int64_t element) const {
    ahead(element, first, second);
  }
  HWY_INLINE void load(Place at, Number& m, Number& v) const {
    m = ByTurns::load(first + at.element());
    v = ByTurns::load(second + at.element());
  }
  HWY_INLINE void store(Place at, Number m, Number v) const {
    const Dice::Rolled random = dice.roll(at);
    ByTurns::store_high(rounded_bits<Lanes>(m, Dice::for_first<16>(random)), first + at.element());
    ByTurns::store_high(rounded_bits<Lanes>(v, Dice::for_second<16>(random)),
                        second + at.element());
  }
  HWY_INLINE void drop_denormals_of(std::int64_t block) const {
    drop_denormals(first + block * kStateBlock);
    drop_denormals(second + block * kStateBlock);
  }
};

// What the int8 format's blocks need before their moments move: the scales they have and those they
// get, and what they round with. Made for several at once, as it is little for each.
struct BlockNumbers {
  static constexpr std::int64_t kBlocks = 8;

  HWY_ALIGN float beta1[kBlocks];  // takes in the step of the first moments
  HWY_ALIGN float inverse[kBlocks];
  HWY_ALIGN std::uint32_t least[kBlocks];  // second moment, in both halves
  HWY_ALIGN std::uint32_t new_least[kBlocks];
  HWY_ALIGN std::uint32_t first_dice[kBlocks];
  HWY_ALIGN std::uint32_t second_dice[kBlocks];
  HWY_ALIGN std::uint16_t scales[kBlocks];  // both, as a block has them
};

// The largest of each block, of first moments in steps, codes of second ones and gradients: first
// as 16 bytes that have it among them.
struct LargestOfBlocks {
  using Parts = std::uint32_t[BlockNumbers::kBlocks][4];
  HWY_ALIGN Parts first = {};
  HWY_ALIGN Parts second = {};
  HWY_ALIGN Parts gradient = {};

  template <class Gradient>
  HWY_INLINE void see(std::int64_t i, const std::uint8_t* first_codes,
                      const std::uint8_t* second_codes, const Gradient* gradients) {
    const hn::Repartition<std::int8_t, Words> offsets;
    const auto zero = hn::Set(Bytes(), kFirstZero);
    keep(Bytes(), first[i], first_codes, [&](auto x) HWY_ATTR {
      return hn::BitCast(Bytes(), hn::Abs(hn::BitCast(offsets, hn::Xor(x, zero))));
    });
    keep(Bytes(), second[i], second_codes, [](auto x) HWY_ATTR { return x; });
    see_gradient(gradient[i], gradients);
  }

 private:
  using Bytes = hn::Repartition<std::uint8_t, Words>;

  static HWY_INLINE void see_gradient(std::uint32_t* to, const bf16* gradients) {
    const Halves::Unsigned d;
    const auto magnitude = hn::Set(d, 0x7fff);
    keep(d, to, reinterpret_cast<const std::uint16_t*>(gradients),
         [&](auto x) HWY_ATTR { return hn::And(x, magnitude); });
  }
  static HWY_INLINE void see_gradient(std::uint32_t* to, const float* gradients) {
    const auto magnitude = hn::Set(Words(), 0x7fffffffu);
    keep(Words(), to, reinterpret_cast<const std::uint32_t*>(gradients),
         [&](auto x) HWY_ATTR { return hn::And(x, magnitude); });
  }
  template <class D, class Magnitude>
  static HWY_INLINE void keep(D d, std::uint32_t* to, const hn::TFromD<D>* block,
                              const Magnitude& magnitude) {
    auto most = hn::Zero(d);
    for (std::int64_t i = 0; i < kStateBlock; i += static_cast<std::int64_t>(hn::Lanes(d))) {
      most = hn::Max(most, magnitude(hn::LoadU(d, block + i)));
    }
    fold(d, most, to);
  }
  template <class D>
  static HWY_INLINE void fold(D d, hn::Vec<D> v, std::uint32_t* to) {
    if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) > 16) {
      const hn::Half<D> half;
      fold(half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
    } else {
      hn::Store(v, d, reinterpret_cast<hn::TFromD<D>*>(to));
    }
  }
};

struct Int8Moments {
  std::uint8_t* first;
  std::uint8_t* second;
  std::uint8_t* scales;
  RoundingKey key;
  std::uint32_t first_block;

  Int8Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<std::uint8_t*>(span.first)),
        second(static_cast<std::uint8_t*>(span.second)),
        scales(span.scales),
        key(rounding_key(step.rounding_key, span.tensor_key)),
        first_block(static_cast<std::uint32_t>(span.first_element / kStateBlock)) {}
  template <class AnyFetch>
  HWY_INLINE void fetch(const AnyFetch& ahead, std::int64_t element) const {
    ahead(element, first, second);
  }

  // Of `count` blocks from `block` on, and stores their new scales.
  template <class Gradient>
  HWY_INLINE void prepare(std::int64_t block, std::int64_t count, const Gradient* gradient,
                          float factor, const AdamWStep& step, LargestOfBlocks& largest,
                          BlockNumbers& to) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = (block + i) * kStateBlock;
      largest.see(i, first + at, second + at, gradient + at);
    }
    const auto bytes = static_cast<std::size_t>(2 * count);
    std::memcpy(to.scales, scales + 2 * block, bytes);
    for (std::int64_t i = 0; i < BlockNumbers::kBlocks; i += block_lanes()) {
      make_numbers<Gradient>(i, block, factor, step, largest, to);
    }
    std::memcpy(scales + 2 * block, to.scales, bytes);
  }

  // First moments are in steps.
  HWY_INLINE void load(Place at, std::uint32_t least, Number& m, Number& v) const {
    m = decoded_first(load_words(first + at.code()));
    v = decoded_second(load_words(second + at.code()), word(least));
  }
  HWY_INLINE void store(Place at, const BlockNumbers& numbers, std::int64_t i, Number m,
                        Number v) const {
    store_words(encoded_first(at, m, numbers.inverse[i], numbers.first_dice[i]), first + at.code());
    store_words(encoded_second(at, v, word(numbers.new_least[i]), numbers.second_dice[i]),
                second + at.code());
  }
  // What store() made of blocks that have no numbers means nothing.
  HWY_INLINE void clear_without_scale(std::int64_t block) const {
    const std::int64_t code = block * kStateBlock;
    if (HWY_UNLIKELY(scales[2 * block] == kNoScale)) {
      std::memset(first + code, kFirstZero, kStateBlock);
    }
    if (HWY_UNLIKELY(scales[2 * block + 1] == kNoScale)) {
      std::memset(second + code, kSecondNan, kStateBlock);
    }
  }

 private:
  using BlockWords = hn::CappedTag<std::uint32_t, BlockNumbers::kBlocks>;
  using BlockFloats = hn::RebindToFloat<BlockWords>;
  using BlockIntegers = hn::RebindToSigned<BlockWords>;
  using BlockWord = hn::Vec<BlockWords>;
  using BlockFloat = hn::Vec<BlockFloats>;

  static HWY_INLINE std::int64_t block_lanes() {
    return static_cast<std::int64_t>(hn::Lanes(BlockWords()));
  }

  // For as many blocks as a vector has lanes, from the i-th on.
  template <class Gradient>
  HWY_INLINE void make_numbers(std::int64_t i, std::int64_t block, float factor,
                               const AdamWStep& step, const LargestOfBlocks& largest,
                               BlockNumbers& to) const {
    const BlockWords words;
    const BlockFloats floats;
    const hn::Rebind<std::uint16_t, BlockWords> shorts;
    const auto number = [&](float x) HWY_ATTR { return hn::Set(floats, x); };
    const auto power = [&](BlockWord exponent)
                           HWY_ATTR { return hn::BitCast(floats, hn::ShiftLeft<23>(exponent)); };
    const BlockWord both = hn::PromoteTo(words, hn::Load(shorts, to.scales + i));
    const BlockWord byte = hn::Set(words, 0xffu);
    const BlockWord first_from = hn::And(both, byte);
    const BlockWord second_from = hn::ShiftRight<8>(both);

    const BlockFloat beta1 = hn::Mul(number(step.beta1), power(first_from));
    const BlockFloat g =
        hn::Mul(hn::BitCast(floats, gradient_bits<Gradient>(largest.gradient[i])), number(factor));
    const BlockFloat m = hn::ConvertTo(
        floats, hn::BitCast(BlockIntegers(), hn::And(largest_byte(largest.first[i]), byte)));
    const BlockWord second_code = hn::And(largest_byte(largest.second[i]), byte);
    const BlockFloat v = hn::BitCast(floats, hn::Add(hn::ShiftLeft<23>(second_from),
                                                     hn::ShiftLeft<kSecondDropped>(second_code)));
    const BlockFloat new_m = hn::MulAdd(beta1, m, g);
    const BlockFloat new_v =
        hn::MulAdd(number(step.beta2), v, hn::Mul(number(step.square_factor), hn::Mul(g, g)));
    const BlockWord first_to = scale_of(new_m, kFirstRoom, kFirstOctaves, kLeastStep);
    const BlockWord second_to = scale_of(new_v, 1u << kSecondDropped, kSecondOctaves, kLeastSecond);

    const BlockWord blocks = hn::Iota(words, first_block + static_cast<std::uint32_t>(block + i));
    const BlockWord random = scramble<OneVector<BlockWords>>(
        hn::Add(hn::Mul(blocks, hn::Set(words, kElementFactor)), hn::Set(words, key.start)),
        key.middle);
    const BlockWord halves = hn::Set(words, 0x10001u << 7);
    hn::Store(beta1, floats, to.beta1 + i);
    hn::Store(power(hn::Sub(hn::Set(words, 254u + kFractionBits), first_to)), floats,
              to.inverse + i);
    hn::Store(hn::Mul(second_from, halves), words, to.least + i);
    hn::Store(hn::Mul(second_to, halves), words, to.new_least + i);
    hn::Store(hn::ShiftRight<32 - kFractionBits>(random), words, to.first_dice + i);
    hn::Store(hn::And(random, hn::Set(words, (1u << kSecondDropped) - 1)), words,
              to.second_dice + i);
    hn::Store(hn::TruncateTo(shorts, hn::Or(first_to, hn::ShiftLeft<8>(second_to))), shorts,
              to.scales + i);
  }

  // first_scale() and second_scale().
  static HWY_INLINE BlockWord scale_of(BlockFloat largest, std::uint32_t room, int octaves,
                                       int least) {
    const BlockIntegers d;
    const BlockWord magnitude =
        hn::And(hn::BitCast(BlockWords(), largest), hn::Set(BlockWords(), 0x7fffffffu));
    const auto exponent =
        hn::BitCast(d, hn::ShiftRight<23>(hn::Add(magnitude, hn::Set(BlockWords(), room))));
    const auto scale = hn::Max(hn::Sub(exponent, hn::Set(d, octaves)), hn::Set(d, least));
    const auto none = hn::Set(d, int{kNoScale});
    return hn::BitCast(BlockWords(), hn::IfThenElse(hn::Lt(exponent, none), scale, none));
  }

  // In the lowest of each lane's bytes, halves or in all of it; above is anything.
  template <class T, class Number>
  static HWY_INLINE BlockWord largest_of(const std::uint32_t (&parts)[4], Number&& within) {
    const BlockWords words;
    const hn::Repartition<T, BlockWords> d;
    BlockWord a, b, c, e;
    hn::LoadInterleaved4(words, parts, a, b, c, e);
    const auto max = [&](BlockWord x, BlockWord y) HWY_ATTR {
      return hn::BitCast(words, hn::Max(hn::BitCast(d, x), hn::BitCast(d, y)));
    };
    return within(max(max(a, b), max(c, e)), max);
  }
  static HWY_INLINE BlockWord largest_byte(const std::uint32_t (&parts)[4]) {
    return largest_of<std::uint8_t>(parts, [](BlockWord x, const auto& max) HWY_ATTR {
      x = max(x, hn::ShiftRight<16>(x));
      return max(x, hn::ShiftRight<8>(x));
    });
  }
  template <class Gradient>
  static HWY_INLINE BlockWord gradient_bits(const std::uint32_t (&parts)[4]) {
    if constexpr (std::is_same_v<Gradient, bf16>) {
      return largest_of<std::uint16_t>(parts, [](BlockWord x, const auto& max) HWY_ATTR {
        return hn::ShiftLeft<16>(max(x, hn::ShiftRight<16>(x)));
      });
    } else {
      return largest_of<std::uint32_t>(parts, [](BlockWord x, const auto&) HWY_ATTR { return x; });
    }
  }

  // BlockDice::turn() of even and odd elements, where they are added; those of a block's second
  // half have the same.
  struct Turns {
    std::uint32_t first[2][kBlockWords];
    std::uint32_t second[2][kBlockWords];

    constexpr Turns() : first(), second() {
      for (std::int64_t i = 0; i < kHalfBlock; ++i) {
        first[i % 2][i / 2] = kWholeNumbers | BlockDice::turn(i) << (kFractionBits - 6);
        second[i % 2][i / 2] = BlockDice::turn(i) << (kSecondDropped - 6);
      }
    }
  };
  static HWY_INLINE const Turns& turns() {
    alignas(64) static constexpr Turns kTurns;
    return kTurns;
  }
  static HWY_INLINE Word turned(const std::uint32_t (&turns)[2][kBlockWords], Place at,
                                std::uint32_t dice) {
    const VectorWord even = hn::Xor(hn::Load(Words(), turns[0] + at.word), word(dice));
    const VectorWord odd = hn::Xor(hn::Load(Words(), turns[1] + at.word), word(dice));
    return {even, odd, even, odd};
  }

  // A byte beside the exponent of 2^23 is that number and 2^23.
  static HWY_INLINE Number decoded_first(VectorWord codes) {
    const VectorWord exponent = word(0x4b000000u);
    const VectorWord byte = word(0xffu);
    return Lanes::sub({from_bits(hn::OrAnd(exponent, codes, byte)),
                       from_bits(hn::OrAnd(exponent, hn::ShiftRight<8>(codes), byte)),
                       from_bits(hn::OrAnd(exponent, hn::ShiftRight<16>(codes), byte)),
                       from_bits(hn::Or(exponent, hn::ShiftRight<24>(codes)))},
                      Lanes::number(0x1p23f + kFirstZero));
  }
  static HWY_INLINE VectorWord encoded_first(Place at, Number m, float inverse,
                                             std::uint32_t dice) {
    const Word random = turned(turns().first, at, dice);
    const Word x = Lanes::bits(Lanes::fma(
        m, Lanes::number(inverse),
        {from_bits(random.a), from_bits(random.b), from_bits(random.c), from_bits(random.d)}));
    const VectorWord low =
        merged(0xffu, hn::ShiftRight<kFractionBits>(x.a), hn::ShiftRight<kFractionBits - 8>(x.b));
    const VectorWord high = merged(0xff0000u, hn::ShiftLeft<16 - kFractionBits>(x.c),
                                   hn::ShiftLeft<24 - kFractionBits>(x.d));
    return merged(0xffffu, low, high);
  }

  // Of second moments the low 16 bits are zero, or do not matter after the random ones are added:
  // so it is done on halves, where the elements that are 64 apart lie side by side.
  static HWY_INLINE Number decoded_second(VectorWord codes, VectorWord least) {
    constexpr int kShift = kSecondDropped - 16;
    const VectorWord mask = word((0xffu << kShift) * 0x10001u);
    const VectorWord even = Halves::add(hn::And(hn::ShiftLeft<kShift>(codes), mask), least);
    const VectorWord odd = Halves::add(hn::And(hn::ShiftRight<8 - kShift>(codes), mask), least);
    return {from_bits(hn::ShiftLeft<16>(even)), from_bits(hn::ShiftLeft<16>(odd)),
            from_bits(high_half(even)), from_bits(high_half(odd))};
  }
  static HWY_INLINE VectorWord encoded_second(Place at, Number v, VectorWord least,
                                              std::uint32_t dice) {
    constexpr int kShift = kSecondDropped - 16;
    const Word x = Lanes::add(Lanes::bits(v), turned(turns().second, at, dice));
    const VectorWord even = Halves::sub_to_zero(Halves::high(x.a, x.c), least);
    const VectorWord odd = Halves::sub_to_zero(Halves::high(x.b, x.d), least);
    return merged(0xff00ffu, hn::ShiftRight<kShift>(even), hn::ShiftLeft<8 - kShift>(odd));
  }
};
