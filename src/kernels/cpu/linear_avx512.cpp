// Products with stored weights on AVX-512 with its dot products of bytes (VNNI) and of bf16 (BF16).
#include "kernels/cpu/linear_kernels.h"

#include "hwy/highway.h"

#if HWY_ARCH_X86
// GCC's own intrinsics begin with vectors of anything.
HWY_DIAGNOSTICS(push)
HWY_DIAGNOSTICS_OFF(disable : 4700, ignored "-Wmaybe-uninitialized")
HWY_DIAGNOSTICS_OFF(disable : 4701, ignored "-Wuninitialized")
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/to_size.h"

HWY_PUSH_ATTRIBUTES(
    "sse2,ssse3,sse4.1,sse4.2,avx,avx2,fma,f16c,bmi,bmi2,avx512f,avx512vl,avx512dq,avx512bw,"
    "avx512vnni,avx512bf16")
namespace ebb::kernels {
namespace {

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))

struct V {
  // Registers for the sums of a tile, and for what is multiplied.
  static constexpr int kTileRows = 4, kFewPairs = 4, kManyPairs = 6, kFewBlocks = 4,
                       kManyBlocks = 2;
  using Floats = __m512;
  using Bytes = __m512i;
  using Pairs = __m512bh;
  using Scales = __m512;

  static INLINE void fetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }
  static INLINE Floats zero() { return _mm512_setzero_ps(); }
  static INLINE Floats load(const float* p) { return _mm512_loadu_ps(p); }
  // Of what was just written half a vector at a time: a load of all of it would wait until it is in
  // the cache.
  static INLINE Floats load_halves(const float* p) {
    const __m512 first = _mm512_castps256_ps512(_mm256_loadu_ps(p));
    return _mm512_insertf32x8(first, _mm256_loadu_ps(p + 8), 1);
  }
  static INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static INLINE float sum(Floats s) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

  static INLINE Bytes join(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static INLINE Bytes load_bytes(const void* p) { return _mm512_loadu_si512(p); }
  static INLINE void store_bytes(Bytes bytes, void* p) { _mm512_storeu_si512(p, bytes); }

  static INLINE Pairs load_pairs(const bf16* p) {
    return reinterpret_cast<Pairs>(_mm512_loadu_si512(p));
  }
  static INLINE Floats add_pairs(Floats sum, Pairs a, Pairs b) {
    return _mm512_dpbf16_ps(sum, a, b);
  }

  // Scales of both sides, of 256 numbers.
  template <int kGroups>
  static INLINE Scales scales(const float* a, const float* b) {
    if constexpr (kGroups == 8) {
      return _mm512_castps256_ps512(_mm256_mul_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b)));
    } else {
      return _mm512_mul_ps(load_halves(a), _mm512_loadu_ps(b));
    }
  }
  // Each as often as partial sums are of its group, for a quarter of the numbers.
  template <int kGroups>
  static INLINE Floats expand(Scales s, int quarter) {
    const __m512i first = kGroups == 8
                              ? _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
                              : _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(_mm512_add_epi32(first, _mm512_set1_epi32(kGroups / 4 * quarter)),
                                 s);
  }

  // What is taken off numbers is taken off the sums before they begin: of those with a sign 128,
  // with which they have none.
  template <int kMiddle, bool kSigned>
  static INLINE __m512i start(Bytes x) {
    const __m512i none = _mm512_setzero_si512();
    if constexpr (kMiddle == 0 && !kSigned) return none;
    const __m512i middle = _mm512_set1_epi8(static_cast<char>(kSigned ? 128 : kMiddle));
    return _mm512_sub_epi32(none, _mm512_dpbusd_epi32(none, middle, x));
  }
  template <bool kSigned>
  static INLINE Floats dot(__m512i start, Bytes q, Bytes x) {
    if constexpr (kSigned) q = _mm512_xor_si512(q, _mm512_set1_epi8(static_cast<char>(128)));
    return _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, q, x));
  }
};

#include "kernels/cpu/linear-inl.h"

}  // namespace

const LinearKernels& avx512_linear_kernels() {
  static constexpr LinearKernels kernels{prepare, floats, pairs, eight_bits, widen};
  return kernels;
}

}  // namespace ebb::kernels
HWY_POP_ATTRIBUTES
HWY_DIAGNOSTICS(pop)
#endif
