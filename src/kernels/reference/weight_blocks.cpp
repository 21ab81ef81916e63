#include "kernels/reference/weight_blocks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

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
void take_q8_0(Block block, TakenBlock& to) {
  to.scale[0] = half(block, 0);
  for (std::size_t i = 0; i < 32; ++i) to.q[i] = static_cast<std::int8_t>(byte(block, 2 + i));
}

// d, [the least value, [the fifth bits,]] four bits each. Without a least value numbers lie around
// half of their range.
struct SmallBlock {
  bool least, fifth;
};
void take_small(Block block, SmallBlock kind, TakenBlock& to) {
  to.scale[0] = half(block, 0);
  if (kind.least) to.offset[0] = -half(block, 2);
  const std::size_t high = kind.least ? 4 : 2;
  const Block low = block.subspan(kind.fifth ? high + 4 : high);
  const int middle = kind.least ? 0 : kind.fifth ? 16 : 8;
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned q = nibble(low, i) | (kind.fifth ? fifth_bit(block.subspan(high), i) : 0u);
    to.q[i] = static_cast<std::int8_t>(static_cast<int>(q) - middle);
  }
}

// Blocks of 256 are halves of 128, of which a byte holds numbers that lie 32 apart: two bits of
// number i are bits 2 * (i % 128 / 32) of byte 32 * (i / 128) + i % 32.
unsigned two_bits(Block bytes, std::size_t i) {
  return byte(bytes, 32 * (i / 128) + i % 32) >> 2 * (i % 128 / 32) & 3u;
}

// 16 scales and offsets of four bits; two bits each; d of the scales, d of the offsets.
void take_q2_k(Block block, TakenBlock& to) {
  const float d = half(block, 80);
  const float d_offset = half(block, 82);
  to.group = 16;
  for (std::size_t s = 0; s < 16; ++s) {
    to.scale[s] = d * static_cast<float>(byte(block, s) & 15u);
    to.offset[s] = d_offset * static_cast<float>(byte(block, s) >> 4);
  }
  for (std::size_t i = 0; i < 256; ++i) {
    to.q[i] = static_cast<std::int8_t>(two_bits(block.subspan(16), i));
  }
}

// The third bits; two bits each; 16 scales of six bits, the low four of the first and of the last
// eight side by side, then the high two of all; d.
void take_q3_k(Block block, TakenBlock& to) {
  const Block scales = block.subspan(96, 12);
  const float d = half(block, 108);
  to.group = 16;
  for (std::size_t s = 0; s < 16; ++s) {
    const unsigned low = s < 8 ? byte(scales, s) & 15u : byte(scales, s - 8) >> 4;
    const unsigned high = byte(scales, 8 + s % 4) >> 2 * (s / 4) & 3u;
    to.scale[s] = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const bool third = (byte(block, i % 32) >> i / 32 & 1u) != 0;
    const int q = static_cast<int>(two_bits(block.subspan(32), i)) - (third ? 0 : 4);
    to.q[i] = static_cast<std::int8_t>(q);
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
void take_q4_or_q5_k(Block block, bool five, TakenBlock& to) {
  const float d = half(block, 0);
  const float d_offset = half(block, 2);
  for (std::size_t s = 0; s < 8; ++s) {
    const auto [scale, offset] = six_bits(block.subspan(4), s);
    to.scale[s] = d * static_cast<float>(scale);
    to.offset[s] = d_offset * static_cast<float>(offset);
  }
  for (std::size_t i = 0; i < 256; ++i) {
    unsigned q = four_bits(block.subspan(five ? 48 : 16), i);
    if (five) q |= (byte(block, 16 + i % 32) >> i / 32 & 1u) << 4;
    to.q[i] = static_cast<std::int8_t>(q);
  }
}

// Four bits each, where a half of 128 numbers has 64 bytes, of which the low halves come first; two
// bits each; 16 scales; d.
void take_q6_k(Block block, TakenBlock& to) {
  const float d = half(block, 208);
  to.group = 16;
  for (std::size_t s = 0; s < 16; ++s) {
    to.scale[s] = d * static_cast<float>(signed_byte(block, 192 + s));
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const unsigned both = byte(block, 64 * (i / 128) + i % 64);
    const unsigned low = i % 128 < 64 ? both & 15u : both >> 4;
    const unsigned q = low | two_bits(block.subspan(128), i) << 4;
    to.q[i] = static_cast<std::int8_t>(static_cast<int>(q) - 32);
  }
}

float plain(WeightType type, Block at) {
  switch (type) {
    case WeightType::f32: {
      float value;
      std::memcpy(&value, at.data(), sizeof value);
      return value;
    }
    case WeightType::bf16: {
      bf16 value;
      std::memcpy(&value, at.data(), sizeof value);
      return to_float(value);
    }
    default: return half(at, 0);
  }
}

}  // namespace

void take_block(WeightType type, std::span<const std::byte> block, TakenBlock& to) {
  to.group = 32;
  std::fill(std::begin(to.offset), std::end(to.offset), 0.0f);
  switch (type) {
    case WeightType::q4_0: return take_small(block, {false, false}, to);
    case WeightType::q4_1: return take_small(block, {true, false}, to);
    case WeightType::q5_0: return take_small(block, {false, true}, to);
    case WeightType::q5_1: return take_small(block, {true, true}, to);
    case WeightType::q8_0: return take_q8_0(block, to);
    case WeightType::q2_k: return take_q2_k(block, to);
    case WeightType::q3_k: return take_q3_k(block, to);
    case WeightType::q4_k: return take_q4_or_q5_k(block, false, to);
    case WeightType::q5_k: return take_q4_or_q5_k(block, true, to);
    case WeightType::q6_k: return take_q6_k(block, to);
    case WeightType::f32:
    case WeightType::bf16:
    case WeightType::f16: break;
  }
}

void widen_blocks(WeightType type, std::span<const std::byte> from, std::span<float> to) {
  const auto bytes = to_size(grain_of(type).bytes), per = to_size(grain_of(type).per);
  TakenBlock taken;
  for (std::size_t b = 0; b < to.size() / per; ++b) {
    const Block block = from.subspan(b * bytes, bytes);
    if (!in_blocks(type)) {
      to[b] = plain(type, block);
      continue;
    }
    take_block(type, block, taken);
    const bool offsets = has_offsets(type);
    for (std::size_t i = 0; i < per; ++i) {
      const std::size_t g = i / to_size(taken.group);
      const float value = taken.scale[g] * static_cast<float>(taken.q[i]);
      to[b * per + i] = offsets ? value - taken.offset[g] : value;
    }
  }
}

std::int64_t find_bad_block(WeightType type, std::span<const std::byte> from) {
  // Where the scale and, where there is one, the offset are, in half precision.
  int scale = 0, offset = -1;
  switch (type) {
    case WeightType::q4_1:
    case WeightType::q5_1:
    case WeightType::q4_k:
    case WeightType::q5_k: offset = 2; break;
    case WeightType::q2_k: scale = 80, offset = 82; break;
    case WeightType::q3_k: scale = 108; break;
    case WeightType::q6_k: scale = 208; break;
    default: break;
  }
  const Bytes size = grain_of(type).bytes;
  const auto finite = [&](Bytes at) {
    std::uint16_t half = 0;
    std::memcpy(&half, from.data() + at, sizeof half);
    return (half & 0x7c00u) != 0x7c00u;
  };
  const Bytes all = static_cast<Bytes>(from.size());
  for (Bytes block = 0; block + size <= all; block += size) {
    if (!finite(block + scale) || (offset >= 0 && !finite(block + offset))) return block / size;
  }
  return -1;
}

}  // namespace ebb::kernels
