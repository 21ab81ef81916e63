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
  x = A::bit_xor(x, A::template shift_right<16>(x));
  x = A::mul(A::add(x, A::word(middle)), A::word(kMiddleFactor));
  return A::bit_xor(x, A::template shift_right<16>(x));
}

// round_at_random() of what arithmetic made: its NaN keep their mark in the high half.
template <class A>
EBB_ARITHMETIC typename A::Word rounded_high_half(typename A::Number value,
                                                  typename A::Word random) {
  const auto bits = A::bits(value);
  const auto magnitude = A::bit_and(bits, A::word(0x7fffffffu));
  const auto most = A::max(magnitude, A::word(0x7f7fffffu));
  const auto rounded = A::min(A::add(magnitude, random), most);
  return A::template shift_right<16>(A::bit_or(rounded, A::bit_xor(bits, magnitude)));
}

// `floor` has the bits of the block's power of two.
template <class A, int kDropped>
EBB_ARITHMETIC typename A::Number decoded(typename A::Word code, typename A::Word floor) {
  const auto sum = A::add(A::template shift_left<kDropped>(code), floor);
  return A::sub(A::from_bits(sum), A::from_bits(floor));
}

template <class A, int kDropped>
EBB_ARITHMETIC typename A::Word encoded(typename A::Word magnitude, typename A::Word floor,
                                        typename A::Word random) {
  const auto sum = A::bits(A::add(A::from_bits(magnitude), A::from_bits(floor)));
  return A::template shift_right<kDropped>(A::add(A::sub(sum, floor), random));
}

template <class A>
EBB_ARITHMETIC typename A::Number decoded_first(typename A::Word code, typename A::Word floor) {
  const auto magnitude =
      A::bits(decoded<A, kFirstCode.dropped>(A::bit_and(code, A::word(0x7fu)), floor));
  const auto sign = A::template shift_left<24>(A::bit_and(code, A::word(0x80u)));
  return A::from_bits(A::bit_xor(magnitude, sign));
}

// `keep` is all ones, or zero where the block has no scale.
template <class A>
EBB_ARITHMETIC typename A::Word encoded_first(typename A::Number m, typename A::Word floor,
                                              typename A::Word keep, typename A::Word random) {
  const auto bits = A::bits(m);
  const auto magnitude = A::bit_and(bits, A::word(0x7fffffffu));
  const auto sign = A::template shift_right<24>(A::bit_xor(bits, magnitude));
  const auto code = encoded<A, kFirstCode.dropped>(
      magnitude, floor, A::template shift_right<32 - kFirstCode.dropped>(random));
  return A::bit_and(A::bit_or(code, sign), keep);
}

template <class A>
EBB_ARITHMETIC typename A::Word encoded_second(typename A::Number v, typename A::Word floor,
                                               typename A::Word keep, typename A::Word random) {
  const auto bits = A::bits(v);
  const auto code = encoded<A, kSecondCode.dropped>(
      bits, floor, A::bit_and(random, A::word((1u << kSecondCode.dropped) - 1)));
  return A::bit_and(A::max(code, A::min(bits, A::word(1u))), keep);
}
