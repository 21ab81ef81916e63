// The rules and roundings of the fast kernels, written once for vectors and for threads of a GPU.
// It has no guard and no namespace of its own: the file that computes with it includes it in its
// own, after update.h and moment_codes.h, with EBB_ARITHMETIC defined as what marks its functions.
//
// A is the arithmetic: Number (fp32) and Word (32 bits), one or many at once, and the operations
// below on them. reference/ does not use this file; it is what this file is compared with.

// Of AdamW and Adam, as the two below.
template <class A, class S>
EBB_ARITHMETIC void adam_moments(const S& s, typename A::Number g, typename A::Number& m,
                                 typename A::Number& v) {
  m = A::fma(A::number(s.beta1), m, g);
  v = A::fma(A::number(s.beta2), v, A::mul(A::number(s.square_factor), A::mul(g, g)));
}

// m / d, with `root` that of v.
template <class A, class S>
EBB_ARITHMETIC typename A::Number adam_quotient(const S& s, typename A::Number m,
                                                typename A::Number root) {
  return A::div(m, A::fma(root, A::number(s.root_factor), A::number(s.epsilon)));
}

template <class A>
EBB_ARITHMETIC void apply(const AdamWStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number& v) {
  adam_moments<A>(s, g, m, v);
  p = A::fms(p, A::number(s.decay_factor), adam_quotient<A>(s, m, A::sqrt(v)));
}

template <class A>
EBB_ARITHMETIC void apply(const AdamStep& s, typename A::Number& p, typename A::Number g,
                          typename A::Number& m, typename A::Number& v) {
  const auto h = A::mul(A::number(s.one_minus_beta1), A::fma(A::number(s.decay), p, g));
  adam_moments<A>(s, h, m, v);
  p = A::sub(p, adam_quotient<A>(s, m, A::sqrt(v)));
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
