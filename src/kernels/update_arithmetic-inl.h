// The rules and codes of the fast kernels, written once for vectors and for threads of a GPU. It
// has no guard and no namespace of its own: whoever computes with it includes it in theirs, after
// update.h and moment_codes.h, with EBB_ARITHMETIC defined as what marks their functions.
//
// A is the arithmetic: Number (fp32) and Word (32 bits), one or many at once, and the operations
// below on them. reference/ does not use this file; it is what this file is compared with.

template <class A>
EBB_ARITHMETIC void adam_moments(float beta1, float one_minus_beta1, float beta2,
                                 float one_minus_beta2, typename A::Number g, typename A::Number& m,
                                 typename A::Number& v) {
  m = A::fma(A::number(beta1), m, A::mul(A::number(one_minus_beta1), g));
  v = A::fma(A::number(beta2), v, A::mul(A::number(one_minus_beta2), A::mul(g, g)));
}

// m / d, with `root` that of v.
template <class A>
EBB_ARITHMETIC typename A::Number adam_quotient(float inverse_root_correction2, float epsilon,
                                                typename A::Number m, typename A::Number root) {
  return A::div(m, A::fma(root, A::number(inverse_root_correction2), A::number(epsilon)));
}

template <class A>
EBB_ARITHMETIC void apply(const AdamWStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number& v) {
  adam_moments<A>(s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2, g, m, v);
  const auto q = adam_quotient<A>(s.inverse_root_correction2, s.epsilon, m, A::sqrt(v));
  p = A::fma(A::number(-s.step_size), q, A::mul(p, A::number(s.decay_factor)));
}

template <class A>
EBB_ARITHMETIC void apply(const AdamStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number& v) {
  const auto h = A::fma(A::number(s.decay), p, g);
  adam_moments<A>(s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2, h, m, v);
  const auto q = adam_quotient<A>(s.inverse_root_correction2, s.epsilon, m, A::sqrt(v));
  p = A::fma(A::number(-s.step_size), q, p);
}

template <class A>
EBB_ARITHMETIC void apply(const LionStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number&) {
  const auto u = A::fma(A::number(s.beta1), m, A::mul(A::number(s.one_minus_beta1), g));
  p = A::fma(A::number(-s.rate), A::sign(u), A::mul(p, A::number(s.decay_factor)));
  m = A::fma(A::number(s.beta2), m, A::mul(A::number(s.one_minus_beta2), g));
}

template <class A>
EBB_ARITHMETIC void apply(const SgdStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number&) {
  const auto h = A::fma(A::number(s.decay), p, g);
  m = A::fma(A::number(s.momentum), m, h);
  const auto u = s.nesterov ? A::fma(A::number(s.momentum), m, h) : m;
  p = A::fma(A::number(-s.rate), u, p);
}

template <class A>
EBB_ARITHMETIC void apply(const AdagradStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number&) {
  const auto h = A::fma(A::number(s.decay), p, g);
  m = A::fma(h, h, m);
  const auto d = A::add(A::sqrt(m), A::number(s.epsilon));
  p = A::fma(A::number(-s.rate), A::div(h, d), p);
}

// The rest of random_bits(), from element * kElementFactor + key.start on.
template <class A>
EBB_ARITHMETIC typename A::Word scramble(typename A::Word x, std::uint32_t middle) {
  x = A::bit_xor(x, A::bit_xor(A::template shift_right<16>(x), A::word(middle)));
  x = A::mul(x, A::word(kMiddleFactor));
  return A::bit_xor(x, A::template shift_right<16>(x));
}

// round_at_random() of what arithmetic made, whose NaN have their mark in the high half: the high
// half is the result. What has no finite neighbour above is cut off.
template <class A>
EBB_ARITHMETIC typename A::Word rounded_bits(typename A::Number value, typename A::Word random) {
  const auto bits = A::bits(value);
  const auto magnitude = A::bit_and(bits, A::word(0x7fffffffu));
  return A::add(bits, A::zero_unless_below(magnitude, A::word(0x7f7f0000u), random));
}

// Int8 codes, one of a word (cpu/ has all four at once), where they are shortest to reach: of the
// first moment with the magnitude in the bits that it has in a float, the sign beside it; of the
// second likewise. `floor` has the bits of the block's power of two.
template <class A, int kBits>
EBB_ARITHMETIC typename A::Word moved_left(typename A::Word x) {
  if constexpr (kBits >= 0) {
    return A::template shift_left<kBits>(x);
  } else {
    return A::template shift_right<-kBits>(x);
  }
}

// From byte kByte of a word.
template <class A, int kByte>
EBB_ARITHMETIC typename A::Number decoded_first(typename A::Word word, typename A::Word floor) {
  constexpr std::uint32_t kMagnitude = 0x7fu << kFirstCode.dropped;
  const auto top = A::template shift_left<24 - 8 * kByte>(word);
  const auto spread = A::template shift_right_signed<24 - kFirstCode.dropped>(top);
  const auto sum = A::add(A::bit_and(spread, A::word(0x80000000u | kMagnitude)), floor);
  const auto signed_floor = A::bit_or(A::bit_and(spread, A::word(0x80000000u)), floor);
  return A::sub(A::from_bits(sum), A::from_bits(signed_floor));
}

template <class A, int kByte>
EBB_ARITHMETIC typename A::Number decoded_second(typename A::Word word, typename A::Word floor) {
  constexpr int kDropped = kSecondCode.dropped;
  const auto code =
      A::bit_and(moved_left<A, kDropped - 8 * kByte>(word), A::word(0xffu << kDropped));
  return A::sub(A::from_bits(A::add(code, floor)), A::from_bits(floor));
}

// To byte kByte of a word; the others are anything. `random` has as many bits as are dropped.
// Blocks that have no scale are the caller's.
template <class A, int kByte>
EBB_ARITHMETIC typename A::Word encoded_first(typename A::Number m, typename A::Word floor,
                                              typename A::Word random) {
  constexpr int kDropped = kFirstCode.dropped;
  const auto signed_floor = A::with_sign(A::from_bits(floor), m);
  const auto above = A::sub(A::bits(A::add(m, signed_floor)), A::bits(signed_floor));
  const auto sign =
      A::bit_and(A::template shift_right<24 - kDropped>(A::bits(m)), A::word(0x80u << kDropped));
  return moved_left<A, 8 * kByte - kDropped>(A::bit_or(A::add(above, random), sign));
}

template <class A, int kByte>
EBB_ARITHMETIC typename A::Word encoded_second(typename A::Number v, typename A::Word floor,
                                               typename A::Word random) {
  constexpr int kDropped = kSecondCode.dropped;
  const auto above = A::sub(A::bits(A::add(v, A::from_bits(floor))), floor);
  const auto rounded = A::max(A::add(above, random), A::word(1u << kDropped));
  return moved_left<A, 8 * kByte - kDropped>(rounded);
}

// The bytes of the four, each from where it was encoded.
template <class A>
EBB_ARITHMETIC typename A::Word gathered(typename A::Word a, typename A::Word b, typename A::Word c,
                                         typename A::Word d) {
  const auto low = A::select(A::word(0xffu), a, b);
  const auto high = A::select(A::word(0xff0000u), c, d);
  return A::select(A::word(0xffffu), low, high);
}
