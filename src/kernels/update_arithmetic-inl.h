// The rules and codes of the fast kernels, written once for vectors and for threads of a GPU. It has
// no guard and no namespace of its own: whoever computes with it includes it in theirs, after
// update.h and moment_codes.h, with EBB_ARITHMETIC defined as what marks their functions.
//
// A is the arithmetic: Number (fp32) and Word (32 bits), one or many at once, and the operations
// below on them. reference/ does not use this file; it is what this file is compared with.

template <class A>
EBB_ARITHMETIC void adam_moments(float beta1, float one_minus_beta1, float beta2,
                                 float one_minus_beta2, typename A::Number g,
                                 typename A::Number& m, typename A::Number& v) {
  m = A::fma(A::number(beta1), m, A::mul(A::number(one_minus_beta1), g));
  v = A::fma(A::number(beta2), v, A::mul(A::number(one_minus_beta2), A::mul(g, g)));
}

// -m / d, times the step's size, to be added to `p`.
template <class A>
EBB_ARITHMETIC typename A::Number adam_move(float inverse_root_correction2, float epsilon,
                                            float step_size, typename A::Number p,
                                            typename A::Number m, typename A::Number v) {
  const auto d =
      A::fma(A::sqrt(v), A::number(inverse_root_correction2), A::number(epsilon));
  return A::fma(A::number(-step_size), A::div(m, d), p);
}

template <class A>
EBB_ARITHMETIC void apply(const AdamWStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number& v) {
  adam_moments<A>(s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2, g, m, v);
  p = adam_move<A>(s.inverse_root_correction2, s.epsilon, s.step_size,
                   A::mul(p, A::number(s.decay_factor)), m, v);
}

template <class A>
EBB_ARITHMETIC void apply(const AdamStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number& v) {
  const auto h = A::fma(A::number(s.decay), p, g);
  adam_moments<A>(s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2, h, m, v);
  p = adam_move<A>(s.inverse_root_correction2, s.epsilon, s.step_size, p, m, v);
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
  x = A::bit_xor(A::bit_xor(x, A::template shift_right<16>(x)), A::word(middle));
  x = A::mul(x, A::word(kMiddleFactor));
  return A::bit_xor(x, A::template shift_right<16>(x));
}

// round_at_random() of what arithmetic made: its NaN keep their mark in the high half. What has no
// finite neighbour above is cut off.
template <class A>
EBB_ARITHMETIC typename A::Word rounded_high_half(typename A::Number value,
                                                  typename A::Word random) {
  const auto bits = A::bits(value);
  const auto magnitude = A::bit_and(bits, A::word(0x7fffffffu));
  const auto addend = A::zero_unless_below(magnitude, A::word(0x7f7f0000u), random);
  return A::template shift_right<16>(A::add(bits, addend));
}

// `floor` has the bits of the block's power of two, `code` its sign in all of its high bits.
template <class A>
EBB_ARITHMETIC typename A::Number decoded_first(typename A::Word code, typename A::Word floor) {
  constexpr std::uint32_t kMagnitude = 0x7fu << kFirstCode.dropped;
  const auto shifted = A::template shift_left<kFirstCode.dropped>(code);
  const auto sum = A::add(A::bit_and(shifted, A::word(0x80000000u | kMagnitude)), floor);
  const auto signed_floor = A::bit_or(A::bit_and(shifted, A::word(0x80000000u)), floor);
  return A::sub(A::from_bits(sum), A::from_bits(signed_floor));
}

template <class A>
EBB_ARITHMETIC typename A::Number decoded_second(typename A::Word code, typename A::Word floor) {
  const auto sum = A::add(A::template shift_left<kSecondCode.dropped>(code), floor);
  return A::sub(A::from_bits(sum), A::from_bits(floor));
}

// The low 8 bits are the code. Blocks that have no scale are the caller's.
template <class A>
EBB_ARITHMETIC typename A::Word encoded_first(typename A::Number m, typename A::Word floor,
                                              typename A::Word random) {
  constexpr int kDropped = kFirstCode.dropped;
  const auto bits = A::bits(m);
  const auto signed_floor = A::bit_or(A::bit_and(bits, A::word(0x80000000u)), floor);
  const auto above = A::sub(A::bits(A::add(m, A::from_bits(signed_floor))), floor);
  const auto rounded = A::add(above, A::template shift_right<32 - kDropped>(random));
  const auto sign = A::bit_and(A::template shift_right<24>(bits), A::word(0x80u));
  return A::bit_or(A::template shift_right<kDropped>(rounded), sign);
}

template <class A>
EBB_ARITHMETIC typename A::Word encoded_second(typename A::Number v, typename A::Word floor,
                                               typename A::Word random) {
  constexpr int kDropped = kSecondCode.dropped;
  const auto above = A::sub(A::bits(A::add(v, A::from_bits(floor))), floor);
  const auto rounded = A::add(above, A::bit_and(random, A::word((1u << kDropped) - 1)));
  return A::max(A::template shift_right<kDropped>(rounded), A::min(A::bits(v), A::word(1u)));
}
