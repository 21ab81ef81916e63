// Products with stored weights, written once over a vector set V: the file of an instruction set
// defines V and INLINE inside of an unnamed namespace, where its instructions are allowed, and
// includes this there. It has no guard and no namespace of its own.
//
// A tile is kRows rows of x by kCols rows of the weights; each of its products has a vector of 16
// partial sums, so its bits are the same in every tile. Rows of the weights are read as they lie.

#include "kernels/cpu/linear_blocks-inl.h"

using Floats = typename V::Floats;
using Bytes64 = typename V::Bytes;

// y[row][col] = sum (+ bias) (+ addend)
INLINE void finish(const Linear& call, std::int64_t row, std::int64_t col, float sum) {
  const std::int64_t at = row * call.y.stride + col;
  if (call.y.type == DType::f32) {
    if (call.options.bias) sum += static_cast<const float*>(call.options.bias)[col];
    if (call.options.addend) sum += static_cast<const float*>(call.options.addend)[at];
    static_cast<float*>(call.y.data)[at] = sum;
  } else {
    if (call.options.bias) sum += to_float(static_cast<const bf16*>(call.options.bias)[col]);
    if (call.options.addend) sum += to_float(static_cast<const bf16*>(call.options.addend)[at]);
    static_cast<bf16*>(call.y.data)[at] = to_bf16(sum);
  }
}

INLINE float sum_of_eight(__m256 s) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Walks the weight rows of a job in kFew where there are few rows of x, else in kMany, and all rows
// of x for each of them.
template <int kFew, int kMany, class Tiles>
INLINE void for_tiles(const LinearJob& job, const Tiles& tiles) {
  constexpr int kMost = V::kTileRows;
  std::int64_t col = job.first;
  const auto rows = [&](auto cols) INLINE_LAMBDA {
    constexpr int kCols = decltype(cols)::value;
    std::int64_t r = 0;
    if constexpr (kCols == kMany || kCols == 1) {
      for (; r + kMost <= job.rows; r += kMost) tiles.template run<kMost, kCols>(r, col);
    }
    for (; r < job.rows; ++r) tiles.template run<1, kCols>(r, col);
    col += kCols;
  };
  const bool many = job.rows >= kMost;
  while (many && col + kMany <= job.last) rows(std::integral_constant<int, kMany>());
  while (!many && col + kFew <= job.last) rows(std::integral_constant<int, kFew>());
  while (col < job.last) rows(std::integral_constant<int, 1>());
}

// Plain numbers: kStep of them a vector, weights as `Number`s at weights(col).
template <class Step>
struct PlainTiles {
  using Number = typename Step::Number;
  const LinearJob& job;
  const std::byte* weights;  // of job.first
  Bytes weight_bytes;        // of a row
  Bytes row_bytes;
  std::int64_t cols;

  template <int kRows, int kCols>
  INLINE void run(std::int64_t r, std::int64_t col) const {
    const Number* x[to_size(kRows)];
    const Number* w[to_size(kCols)];
    Floats sum[to_size(kRows)][to_size(kCols)];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      x[i] = reinterpret_cast<const Number*>(job.prepared + (r + i) * row_bytes);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) {
      w[j] = reinterpret_cast<const Number*>(weights + (col - job.first + j) * weight_bytes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kCols; ++j) sum[i][j] = V::zero();
    }
    const std::int64_t whole = cols / Step::kNumbers * Step::kNumbers;
    for (std::int64_t k = 0; k < whole; k += Step::kNumbers) {
      typename Step::Vector b[to_size(kCols)];
#pragma GCC unroll 8
      for (int j = 0; j < kCols; ++j) {
        b[j] = Step::load(w[j] + k);
        if constexpr (kRows == 1) {
          V::fetch(reinterpret_cast<const std::byte*>(w[j] + k) + kCols * weight_bytes);
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const auto a = Step::load(x[i] + k);
#pragma GCC unroll 8
        for (int j = 0; j < kCols; ++j) sum[i][j] = Step::add(sum[i][j], a, b[j]);
      }
    }
    if (whole < cols) {
      for (int j = 0; j < kCols; ++j) {
        alignas(64) Number last[Step::kNumbers] = {};
        std::memcpy(last, w[j] + whole, static_cast<std::size_t>(cols - whole) * sizeof(Number));
        const auto b = Step::load(last);
        for (int i = 0; i < kRows; ++i) {
          sum[i][j] = Step::add(sum[i][j], Step::load(x[i] + whole), b);
        }
      }
    }
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kCols; ++j) {
        finish(job.call, job.row + r + i, col + j, V::sum(sum[i][j]));
      }
    }
  }
};

struct FloatStep {
  using Number = float;
  using Vector = Floats;
  static constexpr int kNumbers = 16;
  static INLINE Vector load(const float* p) { return V::load(p); }
  static INLINE Floats add(Floats sum, Vector a, Vector b) { return V::fma(a, b, sum); }
};

struct PairStep {
  using Number = bf16;
  using Vector = typename V::Pairs;
  static constexpr int kNumbers = 32;
  static INLINE Vector load(const bf16* p) { return V::load_pairs(p); }
  static INLINE Floats add(Floats sum, Vector a, Vector b) { return V::add_pairs(sum, a, b); }
};

// A block of 8 that is the last of its row and not whole: what is missing has scales of zero, which
// change no sum.
struct LastBlocks {
  alignas(64) std::uint8_t bytes[8 * 34];

  INLINE const std::uint8_t* fill(const std::uint8_t* from, Bytes count) {
    std::memset(bytes, 0, sizeof bytes);
    std::memcpy(bytes, from, static_cast<std::size_t>(count));
    return bytes;
  }
};

// Rows are short, and a core does not guess where it goes on when several end at once: without this
// single rows come at a quarter of the memory's rate. Past the matrix nothing is fetched.
INLINE void fetch_lines(const void* from, Bytes count) {
  const auto* const at = static_cast<const std::uint8_t*>(from);
  for (Bytes line = 0; line < count; line += 64) V::fetch(at + line);
}

template <WeightType kType>
constexpr Bytes kBytesOf256 = grain_of(kType).bytes*(256 / grain_of(kType).per);

// Weights as they lie, taken apart where they are used.
template <WeightType kType>
struct StoredSource {
  using T = Unpack<kType>;
  const WeightMatrix& weights;
  Bytes ahead;  // from a row to the one that is read after it

  struct Row {
    const std::uint8_t* at;
    alignas(64) float scale[16];
    alignas(64) float offset[16];
    LastBlocks last;
  };
  INLINE void begin(Row& row, std::int64_t col) const {
    row.at = reinterpret_cast<const std::uint8_t*>(weights.row(col));
  }
  INLINE void open(Row& row, std::int64_t b) const {
    if constexpr (grain_of(kType).per == 32) {
      const std::int64_t left = weights.cols - 256 * b;
      if (left < 256) row.at = row.last.fill(row.at, left / 32 * grain_of(kType).bytes);
    }
    T::scales(row.at, row.scale);
    if constexpr (T::kOffsets) T::offsets(row.at, row.offset);
    fetch_lines(row.at + ahead, kBytesOf256<kType>);
  }
  static INLINE const float* scales(const Row& row) { return row.scale; }
  static INLINE const float* offsets(const Row& row) { return row.offset; }
  static INLINE Bytes64 numbers(const Row& row, int quarter) {
    return V::join(T::numbers(row.at, 2 * quarter), T::numbers(row.at, 2 * quarter + 1));
  }
  static INLINE void close(Row& row) { row.at += kBytesOf256<kType>; }
};

// Where the parts of a row that was taken apart lie: numbers, scales, offsets.
struct UnpackedPlaces {
  std::int64_t blocks;
  int groups;  // of 256 numbers
  INLINE Bytes scales() const { return 256 * blocks; }
  INLINE Bytes offsets() const { return scales() + 4 * groups * blocks; }
  INLINE Bytes bytes() const { return offsets() + 4 * groups * blocks; }
};

template <WeightType kType>
struct UnpackedSource {
  using T = Unpack<kType>;
  static constexpr int kGroups = 256 / T::kGroup;
  const std::byte* rows;  // of `first` and those behind it
  std::int64_t first;
  UnpackedPlaces places;

  struct Row {
    const std::uint8_t* at;
    const float *scale, *offset;
  };
  INLINE void begin(Row& row, std::int64_t col) const {
    const std::byte* const from = rows + (col - first) * places.bytes();
    row.at = reinterpret_cast<const std::uint8_t*>(from);
    row.scale = reinterpret_cast<const float*>(from + places.scales());
    row.offset = reinterpret_cast<const float*>(from + places.offsets());
  }
  INLINE void open(Row&, std::int64_t) const {}
  static INLINE const float* scales(const Row& row) { return row.scale; }
  static INLINE const float* offsets(const Row& row) { return row.offset; }
  static INLINE Bytes64 numbers(const Row& row, int quarter) {
    return V::load_bytes(row.at + 64 * quarter);
  }
  static INLINE void close(Row& row) { row.at += 256, row.scale += kGroups, row.offset += kGroups; }
};

template <WeightType kType>
void unpack_row(const WeightMatrix& weights, std::int64_t col, const UnpackedPlaces& places,
                std::byte* to) {
  using Source = StoredSource<kType>;
  constexpr int kGroups = 256 / Unpack<kType>::kGroup;
  const Source source{weights, weights.row_bytes()};
  typename Source::Row row;
  source.begin(row, col);
  for (std::int64_t b = 0; b < places.blocks; ++b) {
    source.open(row, b);
    std::memcpy(to + places.scales() + 4 * kGroups * b, row.scale, 4 * kGroups);
    if constexpr (Unpack<kType>::kOffsets) {
      std::memcpy(to + places.offsets() + 4 * kGroups * b, row.offset, 4 * kGroups);
    }
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) V::store_bytes(Source::numbers(row, q), to + 256 * b + 64 * q);
    Source::close(row);
  }
}

// Offsets of 256 numbers: 8 partial sums, or 16.
template <int kGroup>
struct OffsetSums {
  __m256 eight;
  INLINE void clear() { eight = _mm256_setzero_ps(); }
  INLINE void add(const float* offsets, const float* sums) {
    eight = _mm256_fmadd_ps(_mm256_loadu_ps(offsets), _mm256_loadu_ps(sums), eight);
  }
  INLINE float sum() const { return sum_of_eight(eight); }
};
template <>
struct OffsetSums<16> {
  Floats sixteen;
  INLINE void clear() { sixteen = V::zero(); }
  INLINE void add(const float* offsets, const float* sums) {
    sixteen = V::fma(V::load_halves(offsets), V::load(sums), sixteen);
  }
  INLINE float sum() const { return V::sum(sixteen); }
};

template <WeightType kType, class Source>
struct EightBitTiles {
  using T = Unpack<kType>;
  static constexpr int kGroups = 256 / T::kGroup;
  const LinearJob& job;
  Source source;
  PreparedLayout layout;

  template <int kRows, int kCols>
  INLINE void run(std::int64_t r, std::int64_t col) const {
    const std::byte* x[to_size(kRows)];
    typename Source::Row w[to_size(kCols)];
    Floats sum[to_size(kRows)][to_size(kCols)];
    OffsetSums<T::kGroup> offset[to_size(kRows)][to_size(kCols)];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) x[i] = job.prepared + (r + i) * layout.row_bytes;
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) {
      source.begin(w[j], col + j);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        sum[i][j] = V::zero();
        offset[i][j].clear();
      }
    }
    for (std::int64_t b = 0; b < layout.cols / 256; ++b) {
      typename V::Scales scale[to_size(kRows)][to_size(kCols)];
#pragma GCC unroll 8
      for (int j = 0; j < kCols; ++j) {
        source.open(w[j], b);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const auto* const at = reinterpret_cast<const float*>(x[i] + layout.scales);
          scale[i][j] = V::template scales<kGroups>(Source::scales(w[j]), at + kGroups * b);
          if constexpr (T::kOffsets) {
            const auto* const sums = reinterpret_cast<const float*>(x[i] + layout.sums);
            offset[i][j].add(Source::offsets(w[j]), sums + kGroups * b);
          }
        }
      }
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        Bytes64 numbers[to_size(kCols)];
#pragma GCC unroll 8
        for (int j = 0; j < kCols; ++j) numbers[j] = Source::numbers(w[j], q);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const Bytes64 a = V::load_bytes(x[i] + 256 * b + 64 * q);
          const auto start = V::template start<T::kMiddle, T::kSigned>(a);
#pragma GCC unroll 8
          for (int j = 0; j < kCols; ++j) {
            sum[i][j] = V::fma(V::template expand<kGroups>(scale[i][j], q),
                               V::template dot<T::kSigned>(start, numbers[j], a), sum[i][j]);
          }
        }
      }
#pragma GCC unroll 8
      for (int j = 0; j < kCols; ++j) Source::close(w[j]);
    }
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kCols; ++j) {
        float total = V::sum(sum[i][j]);
        if constexpr (T::kOffsets) total -= offset[i][j].sum();
        finish(job.call, job.row + r + i, col + j, total);
      }
    }
  }
};

template <WeightType kType>
void eight_bits_of(const LinearJob& job) {
  const WeightMatrix& weights = job.call.weights;
  const PreparedLayout layout(LinearArithmetic::eight_bits, weights);
  if (job.rows < kManyRows) {
    for_tiles<V::kFewBlocks, V::kManyBlocks>(
        job, EightBitTiles<kType, StoredSource<kType>>{
                 job, {weights, V::kFewBlocks * weights.row_bytes()}, layout});
    return;
  }
  const UnpackedPlaces places{layout.cols / 256, 256 / Unpack<kType>::kGroup};
  for (std::int64_t first = job.first; first < job.last; first += kUnpackedRows) {
    LinearJob part{job.call, job.prepared, job.row,
                   job.rows, first,        std::min(first + kUnpackedRows, job.last),
                   job.slot};
    for (std::int64_t col = first; col < part.last; ++col) {
      unpack_row<kType>(weights, col, places, job.slot + (col - first) * places.bytes());
    }
    for_tiles<V::kFewBlocks, V::kManyBlocks>(
        part, EightBitTiles<kType, UnpackedSource<kType>>{part, {job.slot, first, places}, layout});
  }
}

// Calls body(std::integral_constant) with the type of blocks.
template <class Body>
INLINE void with_blocks(WeightType type, const Body& body) {
  switch (type) {
    case WeightType::q4_0: return body(std::integral_constant<WeightType, WeightType::q4_0>());
    case WeightType::q4_1: return body(std::integral_constant<WeightType, WeightType::q4_1>());
    case WeightType::q5_0: return body(std::integral_constant<WeightType, WeightType::q5_0>());
    case WeightType::q5_1: return body(std::integral_constant<WeightType, WeightType::q5_1>());
    case WeightType::q8_0: return body(std::integral_constant<WeightType, WeightType::q8_0>());
    case WeightType::q2_k: return body(std::integral_constant<WeightType, WeightType::q2_k>());
    case WeightType::q3_k: return body(std::integral_constant<WeightType, WeightType::q3_k>());
    case WeightType::q4_k: return body(std::integral_constant<WeightType, WeightType::q4_k>());
    case WeightType::q5_k: return body(std::integral_constant<WeightType, WeightType::q5_k>());
    case WeightType::q6_k: return body(std::integral_constant<WeightType, WeightType::q6_k>());
    case WeightType::f32:
    case WeightType::bf16:
    case WeightType::f16: break;
  }
}

void eight_bits(const LinearJob& job) {
  with_blocks(job.call.weights.type,
              [&](auto type) INLINE_LAMBDA { eight_bits_of<decltype(type)::value>(job); });
}

void pairs(const LinearJob& job) {
  const WeightMatrix& weights = job.call.weights;
  const PreparedLayout layout(LinearArithmetic::pairs, weights);
  for_tiles<V::kFewPairs, V::kManyPairs>(
      job, PlainTiles<PairStep>{job, weights.row(job.first), weights.row_bytes(), layout.row_bytes,
                                weights.cols});
}

// 256 numbers of a row, each product and difference rounded on its own.
template <WeightType kType>
INLINE void widen_256(const typename StoredSource<kType>::Row& row, float* to) {
  using T = Unpack<kType>;
#pragma GCC unroll 1
  for (int e = 0; e < 8; ++e) {
    alignas(32) std::uint8_t q[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(q), T::numbers(row.at, e));
    for (int i = 0; i < 32; i += 8) {
      const int group = (32 * e + i) / T::kGroup;
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + i));
      const __m256i wide = T::kSigned ? _mm256_cvtepi8_epi32(eight) : _mm256_cvtepu8_epi32(eight);
      const __m256 number =
          _mm256_cvtepi32_ps(_mm256_sub_epi32(wide, _mm256_set1_epi32(T::kMiddle)));
      __m256 value = _mm256_mul_ps(_mm256_set1_ps(row.scale[group]), number);
      if constexpr (T::kOffsets) {
        value = _mm256_sub_ps(value, _mm256_set1_ps(row.offset[group]));
      }
      _mm256_storeu_ps(to + 32 * e + i, value);
    }
  }
}

template <WeightType kType>
void widen_blocks_of(const WeightMatrix& weights, std::int64_t col, float* to) {
  const StoredSource<kType> source{weights, weights.row_bytes()};
  typename StoredSource<kType>::Row row;
  source.begin(row, col);
  for (std::int64_t k = 0; k < weights.cols; k += 256) {
    source.open(row, k / 256);
    if (k + 256 <= weights.cols) {
      widen_256<kType>(row, to + k);
    } else {
      float last[256];
      widen_256<kType>(row, last);
      std::memcpy(to + k, last, static_cast<std::size_t>(weights.cols - k) * sizeof(float));
    }
    StoredSource<kType>::close(row);
  }
}

struct BfloatHalf {
  static INLINE __m256 wide(__m128i eight) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
  }
  static INLINE float one(std::uint16_t half) { return to_float(bf16{half}); }
};
struct IeeeHalf {
  static INLINE __m256 wide(__m128i eight) { return _mm256_cvtph_ps(eight); }
  static INLINE float one(std::uint16_t half) { return _cvtsh_ss(half); }
};

template <class Half>
INLINE void widen_halves(const std::byte* from, std::int64_t count, float* to) {
  std::int64_t k = 0;
  for (; k + 8 <= count; k += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * k));
    _mm256_storeu_ps(to + k, Half::wide(eight));
  }
  for (; k < count; ++k) {
    std::uint16_t half;
    std::memcpy(&half, from + 2 * k, sizeof half);
    to[k] = Half::one(half);
  }
}

void widen(const WeightMatrix& weights, std::int64_t row, std::span<float> to) {
  const std::byte* const from = weights.row(row);
  const std::int64_t count = weights.cols;
  std::fill(to.begin() + count, to.end(), 0.0f);
  if (!in_blocks(weights.type)) fetch_lines(from + weights.row_bytes(), weights.row_bytes());
  switch (weights.type) {
    case WeightType::f32:
      std::memcpy(to.data(), from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case WeightType::bf16: return widen_halves<BfloatHalf>(from, count, to.data());
    case WeightType::f16: return widen_halves<IeeeHalf>(from, count, to.data());
    default:
      with_blocks(weights.type, [&](auto type) INLINE_LAMBDA {
        widen_blocks_of<decltype(type)::value>(weights, row, to.data());
      });
  }
}

void floats(const LinearJob& job) {
  const WeightMatrix& weights = job.call.weights;
  const PreparedLayout layout(LinearArithmetic::floats, weights);
  auto* const wide = reinterpret_cast<float*>(job.slot);
  for (std::int64_t first = job.first; first < job.last; first += kUnpackedRows) {
    LinearJob part{job.call, job.prepared, job.row,
                   job.rows, first,        std::min(first + kUnpackedRows, job.last),
                   job.slot};
    for (std::int64_t col = first; col < part.last; ++col) {
      widen(weights, col,
            {wide + (col - first) * layout.cols, static_cast<std::size_t>(layout.cols)});
    }
    for_tiles<4, V::kManyPairs>(part, PlainTiles<FloatStep>{part, job.slot, 4 * layout.cols,
                                                            layout.row_bytes, layout.cols});
  }
}

INLINE int sum_of_words(__m256i v) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

// 32 numbers of a row in 8 bits; see reference/linear.h.
INLINE void narrow_32(const bf16* from, std::int8_t* q, float* scale, int* sums) {
  const __m256i magnitude = _mm256_set1_epi16(0x7fff);
  const __m256i a = load32(reinterpret_cast<const std::uint8_t*>(from));
  const __m256i b = load32(reinterpret_cast<const std::uint8_t*>(from + 16));
  const __m256i both =
      _mm256_max_epu16(_mm256_and_si256(a, magnitude), _mm256_and_si256(b, magnitude));
  const __m128i eight =
      _mm_max_epu16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  // The least of what is left to 0xffff.
  const int least =
      _mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1))), 0);
  const auto bits = static_cast<std::uint16_t>(0xffff - least);
  const float largest = to_float(bf16{bits});
  const bool finite = bits < 0x7f80;
  float inverse = 0;
  *scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  __m256i words[4];
  if (finite && largest >= 0x1p-100f) {
    *scale = largest / 127.0f;
    inverse = 127.0f / largest;
    for (int i = 0; i < 4; ++i) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * i));
      const __m256 value = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(part), 16));
      words[i] = _mm256_cvtps_epi32(_mm256_mul_ps(value, _mm256_set1_ps(inverse)));
    }
  } else {
    for (__m256i& word : words) word = _mm256_setzero_si256();
  }
  // Packing works in halves of a vector; the last step puts them in order.
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(words[0], words[1]),
                                            _mm256_packs_epi32(words[2], words[3]));
  const __m256i ordered =
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), ordered);
  sums[0] = sum_of_words(_mm256_add_epi32(words[0], words[1]));
  sums[1] = sum_of_words(_mm256_add_epi32(words[2], words[3]));
}

void narrow_row(const Linear& call, const bf16* from, std::byte* to) {
  const PreparedLayout layout(LinearArithmetic::eight_bits, call.weights);
  auto* const q = reinterpret_cast<std::int8_t*>(to);
  auto* const scales = reinterpret_cast<float*>(to + layout.scales);
  auto* const offsets = reinterpret_cast<float*>(to + layout.sums);
  const bool sixteen = group_of(call.weights.type) == 16;
  for (std::int64_t k = 0; k < call.x.cols; k += 32) {
    float scale;
    int sums[2];
    narrow_32(from + k, q + k, &scale, sums);
    if (sixteen) {
      scales[k / 16] = scales[k / 16 + 1] = scale;
      offsets[k / 16] = scale * static_cast<float>(sums[0]);
      offsets[k / 16 + 1] = scale * static_cast<float>(sums[1]);
    } else {
      scales[k / 32] = scale;
      offsets[k / 32] = scale * static_cast<float>(sums[0] + sums[1]);
    }
  }
  const std::int64_t groups = call.x.cols / group_of(call.weights.type);
  std::memset(q + call.x.cols, 0, static_cast<std::size_t>(layout.cols - call.x.cols));
  std::fill(scales + groups, scales + layout.groups, 0.0f);
  std::fill(offsets + groups, offsets + layout.groups, 0.0f);
}

void prepare(const Linear& call, std::int64_t row, std::byte* to) {
  const LinearArithmetic arithmetic = arithmetic_of(call.x.type, call.weights.type);
  const auto* const from =
      static_cast<const std::byte*>(call.x.data) + row * call.x.stride * size_of(call.x.type);
  if (arithmetic == LinearArithmetic::eight_bits) {
    return narrow_row(call, reinterpret_cast<const bf16*>(from), to);
  }
  const PreparedLayout layout(arithmetic, call.weights);
  const auto count = static_cast<std::size_t>(call.x.cols * size_of(call.x.type));
  if (arithmetic == LinearArithmetic::floats && call.x.type == DType::bf16) {
    auto* const wide = reinterpret_cast<float*>(to);
    widen_halves<BfloatHalf>(from, call.x.cols, wide);
    std::fill(wide + call.x.cols, wide + layout.cols, 0.0f);
  } else {
    std::memcpy(to, from, count);
    std::memset(to + count, 0, static_cast<std::size_t>(layout.row_bytes) - count);
  }
}
