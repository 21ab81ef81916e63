// Blocks of weights taken apart in vectors of 32 numbers (AVX2, which every set here has). It has
// no guard and no namespace of its own: linear-inl.h includes it in its own, once per instruction
// set. A type T says of 256 numbers at `p` (one block, or eight):
//   kMiddle      what is taken off its numbers, which are bytes without a sign; kSigned: they have
//                one, and nothing is taken off
//   numbers      number 32 e and the 31 behind it
//   scales       of each group, and offsets where it has some (kOffsets)

INLINE __m256i load32(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
INLINE __m128i load16(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
INLINE std::uint32_t word_at(const std::uint8_t* p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}
INLINE std::uint16_t half_at(const std::uint8_t* p) {
  std::uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return half;
}
INLINE float float_of_half(const std::uint8_t* p) { return _cvtsh_ss(half_at(p)); }
INLINE __m256i low_bits(__m256i bytes, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, shift),
                          _mm256_set1_epi8(static_cast<char>(mask)));
}
// Both halves of 16 bytes, the low ones first.
INLINE __m256i nibbles(const std::uint8_t* p) {
  const __m128i both = load16(p);
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), _mm256_set1_epi8(15));
}
// 16 where a bit of four bytes is set.
INLINE __m256i fifth_bits(const std::uint8_t* p) {
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  const __m256i bytes =
      _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(word_at(p))), spread);
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit),
                          _mm256_set1_epi8(16));
}
// The half-precision numbers of eight blocks.
INLINE __m256 halves(const std::uint8_t* p, int step) {
  const auto at = [p, step](int i)
                      INLINE_LAMBDA { return static_cast<short>(half_at(p + i * step)); };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}
INLINE __m256 floats_of_bytes(std::uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes))));
}
// 16 bytes, which `wide` makes integers of, times d.
INLINE void store_scaled(__m256i first, __m256i last, float d, float* to) {
  _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(first)));
  _mm256_storeu_ps(to + 8, _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(last)));
}

template <WeightType kType>
struct Unpack;

// Blocks of 32: d, [the least value,] [the fifth bits,] numbers.
template <int kBytes, bool kLeast, bool kFifth>
struct Small {
  static constexpr int kGroup = 32, kMiddle = kLeast ? 0 : kFifth ? 16 : 8;
  static constexpr bool kSigned = false, kOffsets = kLeast;
  static INLINE __m256i numbers(const std::uint8_t* p, int e) {
    const std::uint8_t* const at = p + kBytes * e + (kLeast ? 4 : 2);
    if constexpr (!kFifth) return nibbles(at);
    return _mm256_or_si256(nibbles(at + 4), fifth_bits(at));
  }
  static INLINE void scales(const std::uint8_t* p, float* to) {
    _mm256_storeu_ps(to, halves(p, kBytes));
  }
  static INLINE void offsets(const std::uint8_t* p, float* to) {
    _mm256_storeu_ps(to, _mm256_xor_ps(halves(p + 2, kBytes), _mm256_set1_ps(-0.0f)));
  }
};
template <>
struct Unpack<WeightType::q4_0> : Small<18, false, false> {};
template <>
struct Unpack<WeightType::q4_1> : Small<20, true, false> {};
template <>
struct Unpack<WeightType::q5_0> : Small<22, false, true> {};
template <>
struct Unpack<WeightType::q5_1> : Small<24, true, true> {};

template <>
struct Unpack<WeightType::q8_0> {
  static constexpr int kGroup = 32, kMiddle = 0;
  static constexpr bool kSigned = true, kOffsets = false;
  static INLINE __m256i numbers(const std::uint8_t* p, int e) { return load32(p + 34 * e + 2); }
  static INLINE void scales(const std::uint8_t* p, float* to) {
    _mm256_storeu_ps(to, halves(p, 34));
  }
  static INLINE void offsets(const std::uint8_t*, float*) {}
};

// Two bits of 32 numbers of 128 that share 32 bytes.
INLINE __m256i two_bits(const std::uint8_t* p, int e) {
  return low_bits(load32(p + 32 * (e / 4)), 2 * (e % 4), 3);
}

template <>
struct Unpack<WeightType::q2_k> {
  static constexpr int kGroup = 16, kMiddle = 0;
  static constexpr bool kSigned = false, kOffsets = true;
  static INLINE __m256i numbers(const std::uint8_t* p, int e) { return two_bits(p + 16, e); }
  static INLINE void scales(const std::uint8_t* p, float* to) {
    take(_mm_and_si128(load16(p), _mm_set1_epi8(15)), float_of_half(p + 80), to);
  }
  static INLINE void offsets(const std::uint8_t* p, float* to) {
    take(_mm_and_si128(_mm_srli_epi16(load16(p), 4), _mm_set1_epi8(15)), float_of_half(p + 82), to);
  }
  static INLINE void take(__m128i bytes, float d, float* to) {
    store_scaled(_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)), d,
                 to);
  }
};

template <>
struct Unpack<WeightType::q3_k> {
  static constexpr int kGroup = 16, kMiddle = 4;
  static constexpr bool kSigned = false, kOffsets = false;
  static INLINE __m256i numbers(const std::uint8_t* p, int e) {
    return _mm256_or_si256(two_bits(p + 32, e), _mm256_slli_epi16(low_bits(load32(p), e, 1), 2));
  }
  static INLINE void scales(const std::uint8_t* p, float* to) {
    const std::uint32_t a = word_at(p + 96), b = word_at(p + 100), high = word_at(p + 104);
    const auto joined = [high](std::uint32_t low, int shift) INLINE_LAMBDA {
      return static_cast<int>((low & 0x0f0f0f0fu) | (high >> shift & 0x03030303u) << 4);
    };
    const __m128i bytes =
        _mm_setr_epi32(joined(a, 0), joined(b, 2), joined(a >> 4, 4), joined(b >> 4, 6));
    const __m256i middle = _mm256_set1_epi32(32);
    store_scaled(_mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), middle),
                 _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)), middle),
                 float_of_half(p + 108), to);
  }
  static INLINE void offsets(const std::uint8_t*, float*) {}
};

template <bool kFive>
struct FourOrFive {
  static constexpr int kGroup = 32, kMiddle = 0;
  static constexpr bool kSigned = false, kOffsets = true;
  static INLINE __m256i numbers(const std::uint8_t* p, int e) {
    const __m256i low = low_bits(load32(p + (kFive ? 48 : 16) + 32 * (e / 2)), 4 * (e % 2), 15);
    if constexpr (!kFive) return low;
    return _mm256_or_si256(low, _mm256_slli_epi16(low_bits(load32(p + 16), e, 1), 4));
  }
  static INLINE std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
    return low | static_cast<std::uint64_t>(high) << 32;
  }
  static INLINE void scales(const std::uint8_t* p, float* to) {
    const std::uint32_t a = word_at(p + 4), c = word_at(p + 12);
    const __m256 bytes =
        floats_of_bytes(joined(a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | (a >> 6 & 0x03030303u) << 4));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(float_of_half(p)), bytes));
  }
  static INLINE void offsets(const std::uint8_t* p, float* to) {
    const std::uint32_t b = word_at(p + 8), c = word_at(p + 12);
    const __m256 bytes = floats_of_bytes(
        joined(b & 0x3f3f3f3fu, (c >> 4 & 0x0f0f0f0fu) | (b >> 6 & 0x03030303u) << 4));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(float_of_half(p + 2)), bytes));
  }
};
template <>
struct Unpack<WeightType::q4_k> : FourOrFive<false> {};
template <>
struct Unpack<WeightType::q5_k> : FourOrFive<true> {};

template <>
struct Unpack<WeightType::q6_k> {
  static constexpr int kGroup = 16, kMiddle = 32;
  static constexpr bool kSigned = false, kOffsets = false;
  static INLINE __m256i numbers(const std::uint8_t* p, int e) {
    const __m256i both = load32(p + 64 * (e / 4) + 32 * (e % 2));
    return _mm256_or_si256(low_bits(both, e % 4 < 2 ? 0 : 4, 15),
                           _mm256_slli_epi16(two_bits(p + 128, e), 4));
  }
  static INLINE void scales(const std::uint8_t* p, float* to) {
    const __m128i bytes = load16(p + 192);
    store_scaled(_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)),
                 float_of_half(p + 208), to);
  }
  static INLINE void offsets(const std::uint8_t*, float*) {}
};
