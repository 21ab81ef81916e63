// Products with stored weights on AVX2, FMA and F16C.
#include "kernels/cpu/linear_kernels.h"

#include "hwy/highway.h"

#if HWY_ARCH_X86
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/to_size.h"

HWY_PUSH_ATTRIBUTES("sse2,ssse3,sse4.1,sse4.2,avx,avx2,fma,f16c,bmi,bmi2")
namespace ebb::kernels {
namespace {

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))

// 64 bytes are two vectors, and so are 16 partial sums.
struct V {
  // Registers for the sums of a tile, and for what is multiplied.
  static constexpr int kTileRows = 2, kFewPairs = 4, kManyPairs = 2, kFewBlocks = 2,
                       kManyBlocks = 2;
  struct Floats {
    __m256 low, high;
  };
  struct Bytes {
    __m256i low, high;
  };
  struct Pairs {
    Floats even, odd;
  };
  using Scales = Floats;

  static INLINE void fetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }
  static INLINE Floats zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static INLINE Floats load_halves(const float* p) { return load(p); }
  static INLINE Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static INLINE float sum(Floats s) {
    const __m256 eight = _mm256_add_ps(s.low, s.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

  static INLINE Bytes join(__m256i low, __m256i high) { return {low, high}; }
  static INLINE Bytes load_bytes(const void* p) {
    const auto* const at = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
  }
  static INLINE void store_bytes(Bytes bytes, void* p) {
    auto* const at = static_cast<__m256i*>(p);
    _mm256_storeu_si256(at, bytes.low);
    _mm256_storeu_si256(at + 1, bytes.high);
  }

  // A word is two bf16; a shift or a mask makes a float of each.
  static INLINE Pairs load_pairs(const bf16* p) {
    const auto [low, high] = load_bytes(p);
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
             _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))},
            {_mm256_castsi256_ps(_mm256_and_si256(low, mask)),
             _mm256_castsi256_ps(_mm256_and_si256(high, mask))}};
  }
  static INLINE Floats add_pairs(Floats sum, const Pairs& a, const Pairs& b) {
    return fma(a.odd, b.odd, fma(a.even, b.even, sum));
  }

  // Scales of both sides, of 256 numbers.
  template <int kGroups>
  static INLINE Scales scales(const float* a, const float* b) {
    const __m256 low = _mm256_mul_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b));
    if constexpr (kGroups == 8) return {low, low};
    return {low, _mm256_mul_ps(_mm256_loadu_ps(a + 8), _mm256_loadu_ps(b + 8))};
  }
  // Each as often as partial sums are of its group, for a quarter of the numbers.
  template <int kGroups>
  static INLINE Floats expand(Scales s, int quarter) {
    if constexpr (kGroups == 8) {
      return {_mm256_permutevar8x32_ps(s.low, _mm256_set1_epi32(2 * quarter)),
              _mm256_permutevar8x32_ps(s.low, _mm256_set1_epi32(2 * quarter + 1))};
    } else {
      const __m256 from = quarter < 2 ? s.low : s.high;
      const __m256i first = _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1),
                                             _mm256_set1_epi32(4 * (quarter % 2)));
      return {_mm256_permutevar8x32_ps(from, first),
              _mm256_permutevar8x32_ps(from, _mm256_add_epi32(first, _mm256_set1_epi32(2)))};
    }
  }

  struct Start {
    __m256i low, high;
  };
  // Sums of two products fit into 16 bits: of numbers up to 63, and of those with a sign, which is
  // given to the other side.
  static INLINE __m256i fours(__m256i a, __m256i b) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1));
  }
  template <int kMiddle, bool kSigned>
  static INLINE Start start(Bytes x) {
    if constexpr (kMiddle == 0) return Start{_mm256_setzero_si256(), _mm256_setzero_si256()};
    const __m256i middle = _mm256_set1_epi8(kMiddle);
    return {fours(middle, x.low), fours(middle, x.high)};
  }
  template <bool kSigned>
  static INLINE Floats dot(Start start, Bytes q, Bytes x) {
    if constexpr (kSigned) {
      return {_mm256_cvtepi32_ps(fours(_mm256_abs_epi8(q.low), _mm256_sign_epi8(x.low, q.low))),
              _mm256_cvtepi32_ps(fours(_mm256_abs_epi8(q.high), _mm256_sign_epi8(x.high, q.high)))};
    }
    return {_mm256_cvtepi32_ps(_mm256_sub_epi32(fours(q.low, x.low), start.low)),
            _mm256_cvtepi32_ps(_mm256_sub_epi32(fours(q.high, x.high), start.high))};
  }
};

#include "kernels/cpu/linear-inl.h"

}  // namespace

const LinearKernels& avx2_linear_kernels() {
  static constexpr LinearKernels kernels{prepare, floats, pairs, eight_bits, widen};
  return kernels;
}

}  // namespace ebb::kernels
HWY_POP_ATTRIBUTES
#endif
