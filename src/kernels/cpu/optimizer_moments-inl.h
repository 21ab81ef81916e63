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

template <int kPlanes>
struct ExactMoments {
  float* first;
  float* second;

  explicit ExactMoments(const StateSpan& span)
      : first(static_cast<float*>(span.first)), second(static_cast<float*>(span.second)) {}
  HWY_INLINE void load(Place at, Number& m, Number& v) const {
    m = InRow::load(first + at.element());
    v = kPlanes == 2 ? InRow::load(second + at.element()) : m;
  }
  HWY_INLINE void store(Place at, Number m, Number v) const {
    InRow::store(m, first + at.element());
    if (kPlanes == 2) InRow::store(v, second + at.element());
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
    return {scramble<OneVector>(even, middle),
            scramble<OneVector>(hn::Add(even, word(kElementFactor)), middle)};
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
  struct OneVector {
    using Word = VectorWord;
    static HWY_INLINE Word word(std::uint32_t x) { return hn::Set(Words(), x); }
    static HWY_INLINE Word mul(Word a, Word b) { return hn::Mul(a, b); }
    static HWY_INLINE Word bit_xor(Word a, Word b) { return hn::Xor(a, b); }
    template <int kBits>
    static HWY_INLINE Word shift_right(Word a) {
      return hn::ShiftRight<kBits>(a);
    }
  };
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
};

// The four codes of a word, as moment_codes.h has them. Their arithmetic is that of floats whose
// low 16 bits are zero, or do not matter after the random ones are added: so it is done on halves,
// where the elements that are 64 apart lie side by side.
struct Codes {
  // A block's power of two, in both halves.
  static HWY_INLINE VectorWord floors(std::uint8_t scale) {
    return word((std::uint32_t{scale} << 7) * 0x10001u);
  }
  static HWY_INLINE Number decoded_first(VectorWord codes, VectorWord floors) {
    constexpr int kShift = kFirstCode.dropped - 16;
    const VectorWord magnitudes = word((0x7fu << kShift) * 0x10001u);
    const VectorWord signs = word(0x80008000u);
    const VectorWord even = Halves::shift_right_signed<8 - kShift>(Halves::shift_left<8>(codes));
    const VectorWord odd = Halves::shift_right_signed<8 - kShift>(codes);
    const VectorWord even_floors = hn::OrAnd(floors, even, signs);
    const VectorWord odd_floors = hn::OrAnd(floors, odd, signs);
    return Lanes::sub(spread(Halves::add(hn::And(even, magnitudes), even_floors),
                             Halves::add(hn::And(odd, magnitudes), odd_floors)),
                      spread(even_floors, odd_floors));
  }
  static HWY_INLINE Number decoded_second(VectorWord codes, VectorWord floors) {
    constexpr int kShift = kSecondCode.dropped - 16;
    const VectorWord mask = word((0xffu << kShift) * 0x10001u);
    const VectorWord even = hn::And(Halves::shift_left<kShift>(codes), mask);
    const VectorWord odd = hn::And(Halves::shift_right<8 - kShift>(codes), mask);
    const Vector floor = from_bits(high_half(floors));
    return Lanes::sub(spread(Halves::add(even, floors), Halves::add(odd, floors)),
                      {floor, floor, floor, floor});
  }
  // `random` has as many bits as are dropped. Blocks that have no scale are the caller's.
  static HWY_INLINE VectorWord encoded_first(Number m, VectorWord floors, Word random) {
    constexpr int kShift = kFirstCode.dropped - 16;
    const VectorWord floor = high_half(floors);
    const Number sum = {hn::Add(m.a, with_sign(floor, m.a)), hn::Add(m.b, with_sign(floor, m.b)),
                        hn::Add(m.c, with_sign(floor, m.c)), hn::Add(m.d, with_sign(floor, m.d))};
    const Word x = Lanes::add(Lanes::bits(sum), random);
    // Now the sign, zeros, the code's magnitude, and what is dropped.
    const VectorWord even = Halves::sub(Halves::high(x.a, x.c), floors);
    const VectorWord odd = Halves::sub(Halves::high(x.b, x.d), floors);
    const VectorWord low_bytes =
        hn::OrAnd(Halves::shift_right<kShift>(even), Halves::shift_right<8>(even), word(0x800080u));
    const VectorWord high_bytes =
        hn::OrAnd(Halves::shift_left<8 - kShift>(odd), odd, word(0x80008000u));
    return merged(0xff00ffu, low_bytes, high_bytes);
  }
  static HWY_INLINE VectorWord encoded_second(Number v, VectorWord floors, Word random) {
    constexpr int kShift = kSecondCode.dropped - 16;
    const Vector floor = from_bits(high_half(floors));
    const Word x = Lanes::add(Lanes::bits(Lanes::add(v, {floor, floor, floor, floor})), random);
    const VectorWord one = word((1u << kShift) * 0x10001u);
    const VectorWord even = Halves::max(Halves::sub(Halves::high(x.a, x.c), floors), one);
    const VectorWord odd = Halves::max(Halves::sub(Halves::high(x.b, x.d), floors), one);
    return merged(0xff00ffu, Halves::shift_right<kShift>(even),
                  Halves::shift_left<8 - kShift>(odd));
  }

 private:
  // Floats of their high halves.
  static HWY_INLINE Number spread(VectorWord even, VectorWord odd) {
    return {from_bits(hn::ShiftLeft<16>(even)), from_bits(hn::ShiftLeft<16>(odd)),
            from_bits(high_half(even)), from_bits(high_half(odd))};
  }
  static HWY_INLINE Vector with_sign(VectorWord magnitude, Vector a) {
    return from_bits(hn::OrAnd(magnitude, bits_of(a), word(0x80000000u)));
  }
};

// A block's moments while its scales are not known.
struct NewMoments {
  HWY_INLINE void keep(std::int64_t w, Number m, Number v) {
    keep_in(first_, w, m);
    keep_in(second_, w, v);
  }
  HWY_INLINE Number first(std::int64_t w) const { return kept_in(first_, w); }
  HWY_INLINE Number second(std::int64_t w) const { return kept_in(second_, w); }

 private:
  using Vectors = float[4][kBlockWords];
  static HWY_INLINE void keep_in(Vectors& to, std::int64_t w, Number x) {
    hn::Store(x.a, Floats(), to[0] + w);
    hn::Store(x.b, Floats(), to[1] + w);
    hn::Store(x.c, Floats(), to[2] + w);
    hn::Store(x.d, Floats(), to[3] + w);
  }
  static HWY_INLINE Number kept_in(const Vectors& from, std::int64_t w) {
    return {hn::Load(Floats(), from[0] + w), hn::Load(Floats(), from[1] + w),
            hn::Load(Floats(), from[2] + w), hn::Load(Floats(), from[3] + w)};
  }
  HWY_ALIGN Vectors first_;
  HWY_ALIGN Vectors second_;
};

struct Int8Moments {
  struct Floors {
    VectorWord first, second;
  };
  // The bits of the largest moments seen, but for signs.
  struct Largest {
    VectorWord first;
    VectorWord second;

    HWY_INLINE void see(Number m, Number v) {
      const Word x = Lanes::bit_and(Lanes::bits(m), Lanes::word(0x7fffffffu));
      const Word y = Lanes::bit_and(Lanes::bits(v), Lanes::word(0x7fffffffu));
      first = hn::Max(first, hn::Max(hn::Max(x.a, x.b), hn::Max(x.c, x.d)));
      second = hn::Max(second, hn::Max(hn::Max(y.a, y.b), hn::Max(y.c, y.d)));
    }
  };
  std::uint8_t* first;
  std::uint8_t* second;
  std::uint8_t* scales;
  Dice dice;

  Int8Moments(const StateSpan& span, const AdamWStep& step)
      : first(static_cast<std::uint8_t*>(span.first)),
        second(static_cast<std::uint8_t*>(span.second)),
        scales(span.scales),
        dice(span, step) {}
  HWY_INLINE Floors floors(std::int64_t block) const {
    return {Codes::floors(scales[2 * block]), Codes::floors(scales[2 * block + 1])};
  }
  HWY_INLINE void store_scales(std::int64_t block, const Largest& largest) const {
    scales[2 * block] = block_scale(kFirstCode, largest_lane(largest.first));
    scales[2 * block + 1] = block_scale(kSecondCode, largest_lane(largest.second));
  }
  HWY_INLINE void load(Place at, Floors floors, Number& m, Number& v) const {
    m = Codes::decoded_first(load_words(first + at.code()), floors.first);
    v = Codes::decoded_second(load_words(second + at.code()), floors.second);
  }
  HWY_INLINE void store(Place at, Floors floors, Number m, Number v) const {
    const Dice::Rolled random = dice.roll(at);
    store_words(Codes::encoded_first(m, floors.first, Dice::for_first<kFirstCode.dropped>(random)),
                first + at.code());
    store_words(
        Codes::encoded_second(v, floors.second, Dice::for_second<kSecondCode.dropped>(random)),
        second + at.code());
  }
  // What store() made of blocks that have no numbers means nothing.
  HWY_INLINE void clear_without_scale(std::int64_t block) const {
    const std::int64_t code = block * kStateBlock;
    if (HWY_UNLIKELY(scales[2 * block] == kNoScale)) std::memset(first + code, 0, kStateBlock);
    if (HWY_UNLIKELY(scales[2 * block + 1] == kNoScale)) {
      std::memset(second + code, 0, kStateBlock);
    }
  }

 private:
  static HWY_INLINE std::uint32_t largest_lane(VectorWord words) {
    return hn::GetLane(hn::MaxOfLanes(Words(), words));
  }
};
