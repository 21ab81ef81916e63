// Moments as they are stored, one at a time: what the bf16 and int8 formats make of them, the
// random numbers they round with, and what no format keeps. This is the specification; reference/
// and conversions use it as it is.
//
// Rounding at random: bits of a magnitude that are to be dropped get a random number of as many
// bits added, and the carry decides. So the mean of the rounded value is the value, and a value
// that fits is kept. Round to nearest would freeze a second moment that changes by a thousandth a
// step, and its error would add up.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/rng.h"

namespace ebb::kernels {

// The key of a step (AdamWStep::rounding_key) and a tensor (StateSpan::tensor_key).
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

constexpr std::uint32_t scrambled(RoundingKey key, std::uint32_t index) {
  std::uint32_t x = index * kElementFactor + key.start;
  x ^= x >> 16 ^ key.middle;
  x *= kMiddleFactor;
  return x ^ x >> 16;
}

// Bf16: 32 random bits for two elements of a tensor that lie 64 apart, by the low 32 bits of the
// first's index. Cheap on purpose: one multiplication for two vectors, as that with kElementFactor
// is a sum from one vector to the next.
constexpr std::uint32_t random_bits(RoundingKey key, std::int64_t element) {
  return scrambled(key, static_cast<std::uint32_t>(element) & ~64u);
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

// Exact and bf16: a moment without gradients is a denormal after a thousand steps and would stay
// one, as nine tenths of the least of them round to it again; a processor takes twice as long for
// it, or many times. So what is below the least normal number is dropped, now and then: in every
// step it would cost a fifth of the update where memory is fast.
constexpr float without_denormals(float stored) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(stored) & 0x7fffffffu;
  return magnitude < 0x00800000u ? 0.0f : stored;
}
constexpr bf16 without_denormals(bf16 stored) {
  return (stored.bits & 0x7fff) < 0x0080 ? bf16{} : stored;
}

// `random` has 16 bits. Finite stays finite, infinities and NaN stay what they are.
constexpr bf16 round_at_random(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return to_bf16(value);
  if (magnitude < 0x7f800000u) magnitude = std::min(magnitude + random, 0x7f7fffffu);
  return {static_cast<std::uint16_t>((bits & 0x80000000u) >> 16 | magnitude >> 16)};
}

// Int8: what the elements of a block of kStateBlock round with. They share random bits, of which
// each turns over others: so each rounds up as often as it must, and of all a block's errors
// together little is left. Two that lie 64 apart round with the same number.
struct BlockDice {
  std::uint32_t bits = 0;

  // The block is counted from the tensor's start.
  constexpr BlockDice(RoundingKey key, std::int64_t block)
      : bits(scrambled(key, static_cast<std::uint32_t>(block))) {}
  // Six bits, those of the element's place in reverse.
  static constexpr std::uint32_t turn(std::int64_t in_block) {
    std::uint32_t reverse = 0;
    for (int bit = 0; bit < 6; ++bit) {
      reverse |= static_cast<std::uint32_t>(in_block >> bit & 1) << (5 - bit);
    }
    return reverse;
  }
  constexpr std::uint32_t first(std::int64_t in_block) const {
    return highest_bits(bits, 15) ^ turn(in_block) << 9;
  }
  constexpr std::uint32_t second(std::int64_t in_block) const {
    return lowest_bits(bits, 20) ^ turn(in_block) << 14;
  }
};

// Where a block keeps the code of its i-th element: word w of its 32 holds the elements 2 w, 2 w +
// 1, 2 w + 64 and 2 w + 65. So codes fall into lanes as pairs of bf16 weights do, by shifts alone.
constexpr std::int64_t code_index(std::int64_t i) { return i % 64 / 2 * 4 + i / 64 * 2 + i % 2; }

// A block has a scale for each moment, an exponent as fp32 has them. They are those of the largest
// moments that an update can make of the block: of its largest moment and its largest gradient,
// wherever in the block the two are. So they are known before its moments are, and what is made of
// one element can be stored at once. Scale 0 is that of memory filled with zeros: it is zero.
inline constexpr std::uint8_t kNoScale = 255;  // the block has no numbers: all of it is NaN

constexpr float power_of_two(std::uint32_t exponent) {
  return std::bit_cast<float>(exponent << 23);
}

// The exponent of a magnitude, or of what rounding may make of it: that is up to `room` higher, in
// units of its last place.
constexpr int exponent_with_room(float magnitude, std::uint32_t room) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude) & 0x7fffffffu;
  return static_cast<int>((bits + room) >> 23);
}

// First moments: 127 even steps each way, a power of two each, as 128 more than that number.
// Moments of a block that are far below its largest round to zero or a step, as often as their mean
// asks. The update computes with the number itself: beta1 takes in the step.
inline constexpr std::uint32_t kFirstRoom = 1u << 17;  // 127 steps are the most
inline constexpr int kFirstOctaves = 6;                // from a step to the largest's power of two
inline constexpr int kLeastStep = 16;                  // its inverse is finite
inline constexpr int kFractionBits = 15;               // of a step, that decide what it rounds to
inline constexpr std::uint8_t kFirstZero = 128;
// The fp32 number whose last place is 1 and whose fraction has the bits of kFirstZero on top.
inline constexpr std::uint32_t kWholeNumbers = 0x4b400000u;

constexpr std::uint8_t first_scale(float largest) {
  const int exponent = exponent_with_room(largest, kFirstRoom);
  if (exponent >= 255) return kNoScale;  // infinite, NaN, or not far below
  // A number, not the constant: a GPU has no address of that.
  return static_cast<std::uint8_t>(std::max(exponent - kFirstOctaves, int{kLeastStep}));
}

constexpr float first_step(std::uint8_t scale) { return power_of_two(scale); }
// Factors that turn a moment into fractions of its step.
constexpr float first_inverse(std::uint8_t scale) {
  return power_of_two(254u + kFractionBits - scale);
}

constexpr float first_in_steps(std::uint8_t stored) {
  return static_cast<float>(int{stored} - kFirstZero);
}
constexpr float decode_first(std::uint8_t stored, std::uint8_t scale) {
  return first_in_steps(stored) * first_step(scale) + 0.0f;  // zero has no sign
}

// `random` has kFractionBits. The sum is a whole number of fractions, rounded once.
inline std::uint8_t encode_first(float m, std::uint8_t scale, std::uint32_t random) {
  if (scale == kNoScale) return kFirstZero;
  const float sum = std::fma(m, first_inverse(scale), std::bit_cast<float>(kWholeNumbers + random));
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(sum) >> kFractionBits);
}

// Second moments: a float of 5 bits of exponent and 3 of fraction, which counts from the block's
// scale. Steps of 6 to 12%, of its root 3 to 6%, over nine decades; what is below is stored as the
// least, never as zero, as the step divides by its root. The grid does not depend on the block: a
// moment that lies on it stays there when its neighbours change, and only its own change, of a
// thousandth or so, is rounded. A grid that followed the block's largest would round all of them
// anew every step.
inline constexpr int kSecondDropped = 20;  // bits of the fp32 fraction that are not kept
inline constexpr int kSecondOctaves = 31;
// What beta2 makes of the least is no denormal: a block whose gradients are all zero, as those of
// tokens that a batch has not, would be many times slower on some processors.
inline constexpr int kLeastSecond = 2;
inline constexpr std::uint8_t kSecondNan = 4;  // of a block without scale

constexpr std::uint8_t second_scale(float largest) {
  const int exponent = exponent_with_room(largest, 1u << kSecondDropped);
  if (exponent >= 255) return kNoScale;
  return static_cast<std::uint8_t>(std::max(exponent - kSecondOctaves, int{kLeastSecond}));
}

// `random` has as many bits as are dropped.
constexpr std::uint8_t encode_second(float v, std::uint8_t scale, std::uint32_t random) {
  if (scale == kNoScale) return kSecondNan;
  const std::uint32_t least = std::uint32_t{scale} << 23;
  const std::uint32_t bits = (std::bit_cast<std::uint32_t>(v) & 0x7fffffffu) + random;
  return static_cast<std::uint8_t>((std::max(bits, least) - least) >> kSecondDropped);
}

constexpr float decode_second(std::uint8_t stored, std::uint8_t scale) {
  return std::bit_cast<float>((std::uint32_t{scale} << 23) +
                              (std::uint32_t{stored} << kSecondDropped));
}

}  // namespace ebb::kernels
