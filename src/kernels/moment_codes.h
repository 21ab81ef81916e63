// The compact moments, one at a time: what the bf16 and int8 formats store, and the random numbers
// they round with. This is the specification; reference/ and conversions use it as it is.
//
// Rounding at random: bits of a magnitude that are to be dropped get a random number of as many
// bits added, and the carry decides. So the mean of the rounded value is the value, and a value
// that fits is kept. Round to nearest would freeze a second moment that changes by a thousandth a
// step, and its error would add up.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "base/rng.h"

namespace ebb::kernels {

// Of a step (AdamWStep::rounding_key) and a tensor (StateSpan::tensor_key).
struct RoundingKey {
  std::uint32_t start = 0;
  std::uint32_t middle = 0;
};

constexpr RoundingKey rounding_key(std::uint64_t step_key, std::uint64_t tensor_key) {
  const std::uint64_t mixed = mix_bits(step_key ^ mix_bits(tensor_key));
  return {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
}

inline constexpr std::uint32_t kElementFactor = 0x9e3779b1u;
inline constexpr std::uint32_t kMiddleFactor = 0x2c1b3c6du;

// 32 random bits for two elements of a tensor that lie 64 apart, by the low 32 bits of the first's
// index. Cheap on purpose: one multiplication for two vectors, as that with kElementFactor is a sum
// from one vector to the next.
constexpr std::uint32_t random_bits(RoundingKey key, std::int64_t element) {
  const auto first_of_two = static_cast<std::uint32_t>(element) & ~64u;
  std::uint32_t x = first_of_two * kElementFactor + key.start;
  x ^= x >> 16 ^ key.middle;
  x *= kMiddleFactor;
  return x ^ x >> 16;
}

// The `count` bits that an element's moment rounds with. The first moment takes the highest and the
// second the lowest, in the second of the two elements the other way round: bits are shared by
// different moments of different elements alone.
constexpr std::uint32_t highest_bits(std::uint32_t bits, int count) { return bits >> (32 - count); }
constexpr std::uint32_t lowest_bits(std::uint32_t bits, int count) {
  return bits & ((1u << count) - 1);
}
struct ElementDice {
  std::uint32_t bits = 0;
  bool second_of_two = false;

  constexpr ElementDice(RoundingKey key, std::int64_t element)
      : bits(random_bits(key, element)), second_of_two((element & 64) != 0) {}
  constexpr std::uint32_t first(int count) const {
    return second_of_two ? lowest_bits(bits, count) : highest_bits(bits, count);
  }
  constexpr std::uint32_t second(int count) const {
    return second_of_two ? highest_bits(bits, count) : lowest_bits(bits, count);
  }
};

// `random` has 16 bits. Finite stays finite, infinities and NaN stay what they are.
constexpr bf16 round_at_random(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return to_bf16(value);
  if (magnitude < 0x7f800000u) magnitude = std::min(magnitude + random, 0x7f7fffffu);
  return {static_cast<std::uint16_t>((bits & 0x80000000u) >> 16 | magnitude >> 16)};
}

// An int8 code of a magnitude y, within a block of kStateBlock: a float of few bits whose smallest
// exponent is the block's. With c the power of two of that exponent, the code is what is left of
// the bits of y + c, counted from those of c: zero is 0, small values lie evenly, large ones have a
// step that grows with them, and all of it is one addition. The block keeps c's exponent (a byte).
//
// The grid of the large values does not depend on the block: a moment that lies on it stays there
// when its neighbours change, and only its own change is rounded. A grid that followed the block's
// largest would round all of them anew every step.
struct BlockCode {
  int dropped = 0;  // bits of the fp32 fraction that are not kept
  int octaves = 0;  // from c to the power of two of the block's largest
};
// Sign, 3 bits of exponent, 4 of fraction: steps of 3 to 6% down to 1/128 of the largest, below
// that of 1/2048 of it.
inline constexpr BlockCode kFirstCode{19, 7};
// 5 bits of exponent, 3 of fraction: steps of 6 to 12%, of its root 3 to 6%, over nine decades. Its
// noise is what the root of (step / 2) makes of it, whatever beta2 is.
inline constexpr BlockCode kSecondCode{20, 31};

// Where a block keeps the code of its i-th element: word w of its 32 holds the elements 2 w, 2 w +
// 1, 2 w + 64 and 2 w + 65. So codes fall into lanes as pairs of bf16 weights do, by shifts alone.
constexpr std::int64_t code_index(std::int64_t i) { return i % 64 / 2 * 4 + i / 64 * 2 + i % 2; }

inline constexpr std::uint8_t kNoScale = 255;  // the block has no numbers: all of it is NaN

// c's exponent for a block whose largest magnitude has these bits; a NaN is larger than all
// numbers. Leaves room to round it up, and keeps the smallest step of a second moment from being a
// denormal.
constexpr std::uint8_t block_scale(BlockCode code, std::uint32_t largest_bits) {
  const std::uint32_t magnitude = largest_bits & 0x7fffffffu;
  const auto exponent = static_cast<int>((magnitude + (2u << code.dropped)) >> 23);
  if (exponent >= 255) return kNoScale;  // infinite, NaN, or above 1.7 * 2^127
  return static_cast<std::uint8_t>(std::max(exponent - code.octaves, 4));
}

// The power of two a block counts from. Scale 0 is that of memory filled with zeros: it is 0.
constexpr float block_floor(std::uint8_t scale) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23);
}

// `random` has as many bits as are dropped.
constexpr std::uint32_t encode_magnitude(BlockCode code, float magnitude, std::uint8_t scale,
                                         std::uint32_t random) {
  if (scale == kNoScale) return 0;
  const float floor = block_floor(scale);
  const auto above =
      std::bit_cast<std::uint32_t>(magnitude + floor) - std::bit_cast<std::uint32_t>(floor);
  return (above + random) >> code.dropped;
}

constexpr float decode_magnitude(BlockCode code, std::uint32_t stored, std::uint8_t scale) {
  const float floor = block_floor(scale);
  return std::bit_cast<float>((stored << code.dropped) + std::bit_cast<std::uint32_t>(floor)) -
         floor;
}

constexpr std::uint8_t encode_first(float m, std::uint8_t scale, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(m);
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
  const std::uint32_t code = encode_magnitude(kFirstCode, magnitude, scale, random);
  const std::uint32_t sign = scale == kNoScale ? 0 : bits >> 31 << 7;
  return static_cast<std::uint8_t>(code | sign);
}

constexpr float decode_first(std::uint8_t stored, std::uint8_t scale) {
  const float magnitude = decode_magnitude(kFirstCode, stored & 0x7fu, scale);
  return (stored & 0x80u) != 0 && magnitude != 0 ? -magnitude : magnitude;  // zero has no sign
}

// A second moment is never stored as zero, as the step divides by its root, but as 2^-34 of the
// block's largest or more. Zeros become that too, which changes nothing: their first moment is
// zero.
constexpr std::uint8_t encode_second(float v, std::uint8_t scale, std::uint32_t random) {
  if (scale == kNoScale) return 0;
  return static_cast<std::uint8_t>(std::max(encode_magnitude(kSecondCode, v, scale, random), 1u));
}

constexpr float decode_second(std::uint8_t stored, std::uint8_t scale) {
  return decode_magnitude(kSecondCode, stored, scale);
}

}  // namespace ebb::kernels
