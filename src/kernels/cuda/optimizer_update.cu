#include <algorithm>
#include <type_traits>
#include <variant>

#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/optimizer_vectors.cuh"
#include "kernels/moment_codes.h"

namespace ebb::kernels {
namespace {

using namespace cuda_optimizer;

#define EBB_ARITHMETIC __device__ __forceinline__
#include "kernels/update_arithmetic-inl.h"

struct Scalar {
  using Number = float;
  using Word = unsigned;

  static __device__ float number(float x) { return x; }
  static __device__ float add(float a, float b) { return __fadd_rn(a, b); }
  static __device__ float sub(float a, float b) { return __fsub_rn(a, b); }
  static __device__ float mul(float a, float b) { return __fmul_rn(a, b); }
  static __device__ float div(float a, float b) { return __fdiv_rn(a, b); }
  static __device__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
  static __device__ float fms(float a, float b, float c) { return __fmaf_rn(a, b, -c); }
  static __device__ float sqrt(float a) { return __fsqrt_rn(a); }
  static __device__ float sign(float a) { return a > 0 ? 1.0f : a < 0 ? -1.0f : a; }

  static __device__ unsigned word(unsigned x) { return x; }
  static __device__ unsigned bits(float a) { return __float_as_uint(a); }
  static __device__ unsigned add(unsigned a, unsigned b) { return a + b; }
  static __device__ unsigned mul(unsigned a, unsigned b) { return a * b; }
  static __device__ unsigned bit_and(unsigned a, unsigned b) { return a & b; }
  static __device__ unsigned bit_xor(unsigned a, unsigned b) { return a ^ b; }
  static __device__ unsigned zero_unless_below(unsigned x, unsigned limit, unsigned a) {
    return x < limit ? a : 0;
  }
  template <int kBits>
  static __device__ unsigned shift_right(unsigned a) {
    return a >> kBits;
  }
};

// The master of a weight that is one, or of the two halves.
__device__ float load_master(float weight, Half) { return weight; }
__device__ float load_master(Half high, Half low) {
  const int rest = static_cast<std::int16_t>(low);
  return __uint_as_float((static_cast<unsigned>(high) << 16) + static_cast<unsigned>(rest));
}

__device__ void store_master(float master, float& weight, Half&) { weight = master; }
// The GPU's own NaN is 0x7fffffff, whose high half, rounded up, would be a zero to the model: it is
// stored as the one whose high half is a NaN.
__device__ void store_master(float master, Half& high, Half& low) {
  unsigned bits = __float_as_uint(master);
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
  high = static_cast<Half>((bits + 0x8000u) >> 16);
  low = static_cast<Half>(bits);
}

// A span with its types; T is what moments are stored as.
template <class W, class G, class T>
struct Planes {
  W* weight;
  Half* low;  // null where the weight is the master
  T* first;
  T* second;             // null where the rule keeps one moment
  std::uint8_t* scales;  // int8 only
  const G* gradient;

  Planes() = default;
  explicit Planes(const StateSpan& span)
      : weight(static_cast<W*>(span.weight)),
        low(reinterpret_cast<Half*>(span.low)),
        first(static_cast<T*>(span.first)),
        second(static_cast<T*>(span.second)),
        scales(span.scales),
        gradient(static_cast<const G*>(span.gradient)) {}

  // Planes that are not there agree with all others.
  Split split(std::int64_t count) const {
    const void* other_low = low != nullptr ? static_cast<const void*>(low) : weight;
    return split_for(count, {{weight, sizeof(W)},
                             {other_low, sizeof(W)},
                             {first, sizeof(T)},
                             {second != nullptr ? second : first, sizeof(T)},
                             {gradient, sizeof(G)}});
  }
};

// random_bits() of the span's elements, or of its blocks.
struct Dice {
  unsigned start = 0;
  unsigned middle = 0;

  template <class S>
  static Dice of(const StateSpan& span, const S& step) {
    if constexpr (std::is_same_v<S, AdamWStep>) {
      const RoundingKey key = rounding_key(step.rounding_key, span.tensor_key);
      const bool blocks = span.format == StateFormat::int8;
      const auto first =
          static_cast<unsigned>(blocks ? span.first_element / kStateBlock : span.first_element);
      return {first * kElementFactor + key.start, key.middle};
    } else {
      return {};
    }
  }
  // The random bits of the i-th element of a span, which starts with a block.
  __device__ unsigned roll(std::int64_t i) const {
    return scramble<Scalar>((static_cast<unsigned>(i) & ~64u) * kElementFactor + start, middle);
  }
  __device__ unsigned roll_block(std::int64_t block) const {
    return scramble<Scalar>(static_cast<unsigned>(block) * kElementFactor + start, middle);
  }
  // The random bits that an element's first moment rounds with.
  __device__ static unsigned for_first(unsigned random, bool second_of_two, int bits) {
    return second_of_two ? lowest_bits(random, bits) : highest_bits(random, bits);
  }
  __device__ static unsigned for_second(unsigned random, bool second_of_two, int bits) {
    return for_first(random, !second_of_two, bits);
  }
};

// The work of a thread block on one span of a launch.
template <class W, class G, class T, class S>
struct Part {
  Planes<W, G, T> planes;
  Split split;
  S step;
  Dice dice;
};

// Spans of one launch. The table is the kernel's argument: constant memory, within the 4 KiB that
// every launch takes at full speed. Each span has whole thread blocks, one after the other.
template <class P>
struct Batch {
  static constexpr int kMost = 32;
  P at[kMost];
  unsigned first_block[kMost];
  int count = 0;
  std::int64_t blocks = 0;

  Batch() { std::fill_n(first_block, kMost, 0xffffffffu); }

  void add(const P& part, std::int64_t threads) {
    at[count] = part;
    first_block[count++] = static_cast<unsigned>(blocks);
    blocks += grid_for(threads, kThreads);
  }
  // The last span that starts at this thread block or before; places without one start nowhere.
  __device__ int mine() const {
    int found = 0;
#pragma unroll
    for (int step = kMost / 2; step > 0; step /= 2) {
      if (first_block[found + step] <= blockIdx.x) found += step;
    }
    return found;
  }
  // This thread's number among those of the span, which is mine().
  __device__ std::int64_t thread_of(int span) const {
    return static_cast<std::int64_t>(blockIdx.x - first_block[span]) * kThreads + threadIdx.x;
  }
};

template <class W, class G, class T, class S>
__device__ void update_element(W& weight, Half& low, T& first, T& second, G gradient, const S& step,
                               float factor, const Dice& dice, std::int64_t at) {
  float p = load_master(weight, low);
  float m = widen(first);
  float v = widen(second);
  apply<Scalar>(step, p, __fmul_rn(widen(gradient), factor), m, v);
  store_master(p, weight, low);
  if constexpr (sizeof(T) == 4) {
    first = step.drops_denormals ? without_denormals(m) : m;
    second = step.drops_denormals ? without_denormals(v) : v;
  } else {
    const unsigned random = dice.roll(at);
    const bool second_of_two = (at & 64) != 0;
    const unsigned first_random = Dice::for_first(random, second_of_two, 16);
    const unsigned second_random = Dice::for_second(random, second_of_two, 16);
    first = static_cast<Half>(rounded_bits<Scalar>(m, first_random) >> 16);
    second = static_cast<Half>(rounded_bits<Scalar>(v, second_random) >> 16);
    if (step.drops_denormals) {
      first = without_denormals(bf16{first}).bits;
      second = without_denormals(bf16{second}).bits;
    }
  }
}

// The exact and bf16 formats: every element for itself.
template <class W, class G, class T, class S>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ Batch<Part<W, G, T, S>> batch, const StepScale* scale) {
  constexpr bool kSplit = sizeof(W) == 2;
  constexpr bool kTwo = kMoments<S> == 2;
  const StepScale now = *scale;
  const int mine = batch.mine();
  const auto& [planes, parts, step, dice] = batch.at[mine];
  const std::int64_t thread = batch.thread_of(mine);
  if (now.apply == 0) return;
  const float factor = gradient_factor(step, now.gradient_scale);
  if (thread < parts.vectors) {
    const std::int64_t at = parts.vector_start(thread);
    Vector<W> weight = load(planes.weight, at);
    Vector<Half> low{};
    if constexpr (kSplit) low = load(planes.low, at);
    Vector<T> first = load(planes.first, at);
    Vector<T> second{};
    if constexpr (kTwo) second = load(planes.second, at);
    const Vector<G> gradient = load(planes.gradient, at);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      update_element(weight.at[i], low.at[i], first.at[i], second.at[i], gradient.at[i], step,
                     factor, dice, at + i);
    }
    store(planes.weight, at, weight);
    if constexpr (kSplit) store(planes.low, at, low);
    store(planes.first, at, first);
    if constexpr (kTwo) store(planes.second, at, second);
  } else if (thread < parts.threads()) {
    const std::int64_t at = parts.single(thread);
    W weight = planes.weight[at];
    Half low = 0;
    if constexpr (kSplit) low = planes.low[at];
    T first = planes.first[at];
    T second{};
    if constexpr (kTwo) second = planes.second[at];
    update_element(weight, low, first, second, planes.gradient[at], step, factor, dice, at);
    planes.weight[at] = weight;
    if constexpr (kSplit) planes.low[at] = low;
    planes.first[at] = first;
    if constexpr (kTwo) planes.second[at] = second;
  }
}

constexpr int kWarp = 32;

template <class T>
struct alignas(2 * sizeof(T)) Two {
  T at[2];
};

// The parameters of a warp's thread in a block: those whose codes are in word `lane` (code_index).
// Two neighbours at a time come as one where the plane is aligned for that; of a block that is not
// whole, elements that are not there count as zeros.
struct Four {
  std::int64_t start;  // of the block
  std::int64_t count;  // of the span
  int lane;
  bool vectors;

  __device__ std::int64_t index(int k) const { return start + k / 2 * 64 + 2 * lane + k % 2; }

  template <class T>
  __device__ void load(const T* plane, T (&to)[4]) const {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      if (vectors) {
        const Two<T> two = *reinterpret_cast<const Two<T>*>(plane + index(k));
        to[k] = two.at[0];
        to[k + 1] = two.at[1];
      } else {
        to[k] = index(k) < count ? plane[index(k)] : T{};
        to[k + 1] = index(k + 1) < count ? plane[index(k + 1)] : T{};
      }
    }
  }
  template <class T>
  __device__ void store(T* plane, const T (&from)[4]) const {
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      if (vectors) {
        *reinterpret_cast<Two<T>*>(plane + index(k)) = {from[k], from[k + 1]};
      } else {
        if (index(k) < count) plane[index(k)] = from[k];
        if (index(k + 1) < count) plane[index(k + 1)] = from[k + 1];
      }
    }
  }
  // Their codes, which need not be aligned.
  __device__ unsigned load_codes(const std::uint8_t* plane) const {
    const std::uint8_t* at = plane + start + 4 * lane;
    if (vectors) return *reinterpret_cast<const unsigned*>(at);
    return at[0] | at[1] << 8 | at[2] << 16 | static_cast<unsigned>(at[3]) << 24;
  }
  __device__ void store_codes(std::uint8_t* plane, unsigned word) const {
    std::uint8_t* at = plane + start + 4 * lane;
    if (vectors) {
      *reinterpret_cast<unsigned*>(at) = word;
      return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (index(k) < count) at[k] = static_cast<std::uint8_t>(word >> 8 * k);
    }
  }
};

// encode_first().
__device__ unsigned first_code(float m, std::uint8_t scale, unsigned random) {
  if (scale == kNoScale) return kFirstZero;
  const float sum = __fmaf_rn(m, first_inverse(scale), __uint_as_float(kWholeNumbers + random));
  return __float_as_uint(sum) >> kFractionBits & 0xff;
}

// The int8 format: a warp a block, a thread a word of codes.
template <class W, class G>
__global__ void __launch_bounds__(kThreads)
    update_int8_kernel(const __grid_constant__ Batch<Part<W, G, std::uint8_t, AdamWStep>> batch,
                       const StepScale* scale) {
  constexpr bool kSplit = sizeof(W) == 2;
  const StepScale now = *scale;
  const int mine = batch.mine();
  const auto& [planes, parts, step, dice] = batch.at[mine];
  std::uint8_t* const scales = planes.scales;
  const std::int64_t count = parts.count;
  const bool aligned = parts.vectors > 0 && parts.head == 0;  // to four elements, codes too
  const std::int64_t block = batch.thread_of(mine) / kWarp;
  const std::int64_t start = block * kStateBlock;
  if (now.apply == 0 || start >= count) return;  // a warp as one
  const Four four{start, count, static_cast<int>(threadIdx.x) % kWarp,
                  aligned && start + kStateBlock <= count};
  W weight[4];
  Half low[4] = {};
  G gradient[4];
  four.load(planes.weight, weight);
  if constexpr (kSplit) four.load(planes.low, low);
  four.load(planes.gradient, gradient);
  const unsigned firsts = four.load_codes(planes.first);
  const unsigned seconds = four.load_codes(planes.second);
  const std::uint8_t second_from = scales[2 * block + 1];
  AdamWStep in_steps = step;
  in_steps.beta1 = __fmul_rn(step.beta1, first_step(scales[2 * block]));
  const float factor = gradient_factor(step, now.gradient_scale);

  float m[4];
  float v[4];
  int most_first = 0;
  unsigned most_second = 0;
  unsigned most_gradient = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    // Behind the span's end codes may be anything.
    const bool there = four.index(k) < count;
    const unsigned first = there ? firsts >> 8 * k & 0xff : kFirstZero;
    const unsigned second = there ? seconds >> 8 * k & 0xff : 0;
    m[k] = first_in_steps(static_cast<std::uint8_t>(first));
    v[k] = decode_second(static_cast<std::uint8_t>(second), second_from);
    most_first = max(most_first, abs(static_cast<int>(first) - kFirstZero));
    most_second = max(most_second, second);
    most_gradient = max(most_gradient, __float_as_uint(widen(gradient[k])) & 0x7fffffffu);
  }
  float largest_m = static_cast<float>(__reduce_max_sync(0xffffffffu, most_first));
  float largest_v = decode_second(
      static_cast<std::uint8_t>(__reduce_max_sync(0xffffffffu, most_second)), second_from);
  const float largest_gradient = __uint_as_float(__reduce_max_sync(0xffffffffu, most_gradient));
  adam_moments<Scalar>(in_steps, __fmul_rn(largest_gradient, factor), largest_m, largest_v);
  const std::uint8_t first_to = first_scale(largest_m);
  const std::uint8_t second_to = second_scale(largest_v);

  const unsigned random = dice.roll_block(block);
  unsigned first_codes = 0;
  unsigned second_codes = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float p = load_master(weight[k], low[k]);
    apply<Scalar>(in_steps, p, __fmul_rn(widen(gradient[k]), factor), m[k], v[k]);
    store_master(p, weight[k], low[k]);
    // BlockDice::turn()
    const unsigned turn = __brev(static_cast<unsigned>(2 * four.lane + k % 2)) >> 26;
    const unsigned first_random = highest_bits(random, kFractionBits) ^ turn << (kFractionBits - 6);
    const unsigned second_random =
        lowest_bits(random, kSecondDropped) ^ turn << (kSecondDropped - 6);
    first_codes |= first_code(m[k], first_to, first_random) << 8 * k;
    second_codes |= encode_second(v[k], second_to, second_random) << 8 * k;
  }
  __syncwarp();  // all have read the old ones
  if (four.lane == 0) {
    scales[2 * block] = first_to;
    scales[2 * block + 1] = second_to;
  }
  four.store_codes(planes.first, first_codes);
  four.store_codes(planes.second, second_codes);
  four.store(planes.weight, weight);
  if constexpr (kSplit) four.store(planes.low, low);
}

// Updates whose types, format and rule are the first one's.
struct Launch {
  std::span<const SpanUpdate> updates;
  const StepScale* scale;
  cudaStream_t stream;

  template <class W, class G, class T, class S>
  void run() const {
    using Parts = Batch<Part<W, G, T, S>>;
    static_assert(sizeof(Parts) + sizeof scale <= 4096);
    Parts batch;
    const auto flush = [&] {
      if (batch.count == 0) return;
      const unsigned blocks = grid_for(batch.blocks, 1);
      if constexpr (sizeof(T) == 1) {
        update_int8_kernel<W, G><<<blocks, kThreads, 0, stream>>>(batch, scale);
      } else {
        update_kernel<W, G, T, S><<<blocks, kThreads, 0, stream>>>(batch, scale);
      }
      device::check(cudaGetLastError(), "launching the update kernel");
      batch = {};
    };
    for (const auto& [span, any_step] : updates) {
      if (span.count == 0) continue;
      const S& step = std::get<S>(any_step);
      const Planes<W, G, T> planes(span);
      const Split split = planes.split(span.count);
      const std::int64_t threads =
          sizeof(T) == 1 ? state_blocks(span.count) * kWarp : split.threads();
      batch.add({planes, split, step, Dice::of(span, step)}, threads);
      if (batch.count == Parts::kMost) flush();
    }
    flush();
  }

  template <class T, class S>
  void types() const {
    const bool wide = updates.front().span.gradient_type == DType::f32;
    if (updates.front().span.weight_type == DType::f32) {
      wide ? run<float, float, T, S>() : run<float, Half, T, S>();
    } else {
      wide ? run<Half, float, T, S>() : run<Half, Half, T, S>();
    }
  }

  template <class S>
  void operator()(const S&) const {
    if constexpr (std::is_same_v<S, AdamWStep>) {
      if (updates.front().span.format == StateFormat::bf16) return types<Half, S>();
      if (updates.front().span.format == StateFormat::int8) return types<std::uint8_t, S>();
    }
    types<float, S>();
  }
};

bool share_a_kernel(const SpanUpdate& a, const SpanUpdate& b) {
  return a.span.weight_type == b.span.weight_type && a.span.gradient_type == b.span.gradient_type &&
         a.span.format == b.span.format && a.step.index() == b.step.index();
}

}  // namespace

void launch_update(std::span<const SpanUpdate> updates, const StepScale* scale,
                   cudaStream_t stream) {
  while (!updates.empty()) {
    std::size_t some = 1;
    while (some < updates.size() && share_a_kernel(updates.front(), updates[some])) ++some;
    std::visit(Launch{updates.first(some), scale, stream}, updates.front().step);
    updates = updates.subspan(some);
  }
}

}  // namespace ebb::kernels
