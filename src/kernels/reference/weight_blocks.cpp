#include "kernels/reference/weight_blocks.h"

#include "base/half.h"
#include "base/to_size.h"

namespace ebb::kernels {
namespace {

using Block = std::span<const std::byte>;

unsigned byte(Block block, std::size_t at) { return std::to_integer<unsigned>(block[at]); }

int signed_byte(Block block, std::size_t at) { return static_cast<std::int8_t>(byte(block, at)); }

float half(Block block, std::size_t at) {
  return half_to_float(static_cast<std::uint16_t>(byte(block, at) | byte(block, at + 1) << 8));
}

// Of 16 bytes that hold 32 numbers of four bits: the low halves are the first 16.
unsigned nibble(Block bytes, std::size_t i) {
  return i < 16 ? byte(bytes, i) & 15u : byte(bytes, i - 16) >> 4;
}

// Bit i of 32 in four bytes, as the fifth of a number.
unsigned fifth_bit(Block bytes, std::size_t i) { return (byte(bytes, i / 8) >> i % 8 & 1u) << 4; }

// d, 32 numbers around 0.
void widen_q8_0(Block block, float* to) {
  const float d = half(block, 0);
  for (std::size_t i = 0; i < 32; ++i) to[i] = d * static_cast<float>(signed_byte(block, 2 + i));
}

// d, four bits each.
void widen_q4_0(Block block, float* to) {
  const float d = half(block, 0);
  for (std::size_t i = 0; i < 32; ++i) {
    to[i] = d * static_cast<float>(static_cast<int>(nibble(block.subspan(2), i)) - 8);
  }
}

// d and the least value, four bits each.
void widen_q4_1(Block block, float* to) {
  const float d = half(block, 0);
  const float least = half(block, 2);
  for (std::size_t i = 0; i < 32; ++i) {
    to[i] = d * static_cast<float>(nibble(block.subspan(4), i)) + least;
  }
}

// d, the fifth bits, four bits each.
void widen_q5_0(Block block, float* to) {
  const float d = half(block, 0);
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned q = nibble(block.subspan(6), i) | fifth_bit(block.subspan(2), i);
    to[i] = d * static_cast<float>(static_cast<int>(q) - 16);
  }
}

void widen_q5_1(Block block, float* to) {
  const float d = half(block, 0);
  const float least = half(block, 2);
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned q = nibble(block.subspan(8), i) | fifth_bit(block.subspan(4), i);
    to[i] = d * static_cast<float>(q) + least;
  }
}

// Blocks of 256 are halves of 128, of which a byte holds numbers that lie 32 apart: two bits of
// number i are bits 2 * (i % 128 / 32) of byte 32 * (i / 128) + i % 32.
unsigned two_bits(Block bytes, std::size_t i) {
  return byte(bytes, 32 * (i / 128) + i % 32) >> 2 * (i % 128 / 32) & 3u;
}

// 16 scales and offsets of four bits; two bits each; d of the scales, d of the offsets.
void widen_q2_k(Block block, float* to) {
  const float d = half(block, 80);
  const float d_offset = half(block, 82);
  for (std::size_t i = 0; i < 256; ++i) {
    const unsigned scales = byte(block, i / 16);
    const float scale = d * static_cast<float>(scales & 15u);
    const float offset = d_offset * static_cast<float>(scales >> 4);
    to[i] = scale * static_cast<float>(two_bits(block.subspan(16), i)) - offset;
  }
}

// The third bits; two bits each; 16 scales of six bits, the low four of the first and of the last
// eight side by side, then the high two of all; d.
void widen_q3_k(Block block, float* to) {
  const Block scales = block.subspan(96, 12);
  const float d = half(block, 108);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t s = i / 16;
    const unsigned low = s < 8 ? byte(scales, s) & 15u : byte(scales, s - 8) >> 4;
    const unsigned high = byte(scales, 8 + s % 4) >> 2 * (s / 4) & 3u;
    const float scale = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    const bool third = (byte(block, i % 32) >> i / 32 & 1u) != 0;
    const int q = static_cast<int>(two_bits(block.subspan(32), i)) - (third ? 0 : 4);
    to[i] = scale * static_cast<float>(q);
  }
}

struct ScaleAndOffset {
  unsigned scale = 0, offset = 0;
};

// Eight of each, six bits, in twelve bytes: the first four are the low six bits of the first eight
// bytes; of the last four the low halves are in the last four bytes, the rest is what was left.
ScaleAndOffset six_bits(Block bytes, std::size_t s) {
  if (s < 4) return {byte(bytes, s) & 63u, byte(bytes, s + 4) & 63u};
  return {(byte(bytes, s + 4) & 15u) | byte(bytes, s - 4) >> 6 << 4,
          byte(bytes, s + 4) >> 4 | byte(bytes, s) >> 6 << 4};
}

// Four bits of number i: 64 numbers share 32 bytes, of which the first 32 are the low halves.
unsigned four_bits(Block bytes, std::size_t i) {
  const unsigned both = byte(bytes, 32 * (i / 64) + i % 32);
  return i % 64 < 32 ? both & 15u : both >> 4;
}

// d of the scales and of the offsets, scales and offsets, [the fifth bits,] four bits each.
void widen_q4_or_q5_k(Block block, bool five, float* to) {
  const float d = half(block, 0);
  const float d_offset = half(block, 2);
  for (std::size_t i = 0; i < 256; ++i) {
    const auto [s, o] = six_bits(block.subspan(4), i / 32);
    unsigned q = four_bits(block.subspan(five ? 48 : 16), i);
    if (five) q |= (byte(block, 16 + i % 32) >> i / 32 & 1u) << 4;
    const float scale = d * static_cast<float>(s);
    to[i] = scale * static_cast<float>(q) - d_offset * static_cast<float>(o);
  }
}

// Four bits each, where a half of 128 numbers has 64 bytes, of which the low halves come first; two
// bits each; 16 scales; d.
void widen_q6_k(Block block, float* to) {
  const float d = half(block, 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const unsigned both = byte(block, 64 * (i / 128) + i % 64);
    const unsigned low = i % 128 < 64 ? both & 15u : both >> 4;
    const unsigned q = low | two_bits(block.subspan(128), i) << 4;
    const float scale = d * static_cast<float>(signed_byte(block, 192 + i / 16));
    to[i] = scale * static_cast<float>(static_cast<int>(q) - 32);
  }
}

void widen_block(WeightBlock type, Block block, float* to) {
  switch (type) {
    case WeightBlock::q4_0: return widen_q4_0(block, to);
    case WeightBlock::q4_1: return widen_q4_1(block, to);
    case WeightBlock::q5_0: return widen_q5_0(block, to);
    case WeightBlock::q5_1: return widen_q5_1(block, to);
    case WeightBlock::q8_0: return widen_q8_0(block, to);
    case WeightBlock::q2_k: return widen_q2_k(block, to);
    case WeightBlock::q3_k: return widen_q3_k(block, to);
    case WeightBlock::q4_k: return widen_q4_or_q5_k(block, false, to);
    case WeightBlock::q5_k: return widen_q4_or_q5_k(block, true, to);
    case WeightBlock::q6_k: return widen_q6_k(block, to);
  }
}

}  // namespace

void widen_blocks(WeightBlock type, std::span<const std::byte> from, std::span<float> to) {
  const Grain grain = grain_of(type);
  const std::size_t blocks = to.size() / to_size(grain.per);
  for (std::size_t b = 0; b < blocks; ++b) {
    widen_block(type, from.subspan(b * to_size(grain.bytes), to_size(grain.bytes)),
                to.data() + b * to_size(grain.per));
  }
}

}  // namespace ebb::kernels
