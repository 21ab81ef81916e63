// Weights of any type with bits of every kind, for tests and benches: numbers are random, scales
// are small and normal.
#pragma once

#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "kernels/weight_type.h"

namespace ebb::kernels {

// Where a block keeps its half-precision scales.
inline std::vector<Bytes> scale_places(WeightType type) {
  switch (type) {
    case WeightType::q4_0:
    case WeightType::q5_0:
    case WeightType::q8_0: return {0};
    case WeightType::q2_k: return {80, 82};
    case WeightType::q3_k: return {108};
    case WeightType::q6_k: return {208};
    case WeightType::f32:
    case WeightType::bf16:
    case WeightType::f16: return {};
    default: return {0, 2};
  }
}

// Owns the bytes of a matrix, which begin `skip` bytes behind a boundary.
class StoredWeights {
 public:
  StoredWeights(WeightType type, std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                Bytes skip = 0)
      : skip_(skip), matrix_{nullptr, type, rows, cols} {
    bytes_.resize(static_cast<std::size_t>(matrix_.bytes() + skip));
    matrix_.data = bytes_.data() + skip;
    const CounterRng rng(seed, static_cast<std::uint64_t>(type));
    const Bytes size = grain_of(type).bytes;
    for (Bytes i = 0; i < matrix_.bytes(); ++i) {
      at(i) = static_cast<std::byte>(rng.below(static_cast<std::uint64_t>(i), 256));
    }
    if (!in_blocks(type)) {
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const auto value = static_cast<float>(0.05 * rng.normal(static_cast<std::uint64_t>(i)));
        const bf16 narrow = to_bf16(value);
        // Exponents of half precision up to 2^-3.
        const auto half = static_cast<std::uint16_t>((narrow.bits & 0xb3ffu) % 0xb001u);
        if (type == WeightType::f32) std::memcpy(&at(4 * i), &value, 4);
        if (type == WeightType::bf16) std::memcpy(&at(2 * i), &narrow, 2);
        if (type == WeightType::f16) std::memcpy(&at(2 * i), &half, 2);
      }
    }
    for (Bytes block = 0; block < matrix_.bytes(); block += size) {
      for (const Bytes place : scale_places(type)) {
        // 2^-9 to 2^-5 with any fraction.
        const auto bits = static_cast<std::uint16_t>(
            0x1800u + rng.below(static_cast<std::uint64_t>(block + place), 0x1000));
        set_scale(block + place, bits);
      }
    }
  }
  StoredWeights(const StoredWeights&) = delete;
  StoredWeights& operator=(const StoredWeights&) = delete;

  const WeightMatrix& matrix() const { return matrix_; }
  // A half-precision number, by its bits.
  void set_scale(Bytes place, std::uint16_t bits) { std::memcpy(&at(place), &bits, sizeof bits); }

 private:
  std::byte& at(Bytes i) { return bytes_[static_cast<std::size_t>(skip_ + i)]; }

  Bytes skip_;
  std::vector<std::byte> bytes_;
  WeightMatrix matrix_;
};

}  // namespace ebb::kernels
