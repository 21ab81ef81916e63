#include "kernels/reference/quantize_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/to_size.h"
#include "kernels/reference/scale_search.h"

namespace ebb::kernels {
namespace {

using Block = std::span<std::byte>;

void put_half(Block block, std::size_t at, float value) {
  const std::uint16_t half = float_to_half(value);
  block[at] = static_cast<std::byte>(half & 0xffu);
  block[at + 1] = static_cast<std::byte>(half >> 8);
}

float to_half_and_back(float value) { return half_to_float(float_to_half(value)); }

void put_bits(Block block, std::size_t at, unsigned bits) {
  block[at] |= static_cast<std::byte>(bits);
}

// Where 32 numbers of four bits lie in 16 bytes, and their fifth bits in four.
void put_nibbles(Block bytes, std::span<const int> q) {
  for (std::size_t i = 0; i < 32; ++i)
    put_bits(bytes, i % 16, (static_cast<unsigned>(q[i]) & 15u) << (i < 16 ? 0 : 4));
}
void put_fifth_bits(Block bytes, std::span<const int> q) {
  for (std::size_t i = 0; i < 32; ++i)
    put_bits(bytes, i / 8, (static_cast<unsigned>(q[i]) >> 4 & 1u) << i % 8);
}

// 127 levels a side: a finer search would gain nothing that can be seen.
void quantize_q8_0(const float* from, Block block) {
  const Group group(from, 32);
  float most = 0;
  for (const float x : group) most = std::max(most, std::abs(x));
  const float d = to_half_and_back(most / 127);
  std::array<int, 32> q;
  to_levels(group, {-127, 127}, {d, 0}, q);
  put_half(block, 0, d);
  for (std::size_t i = 0; i < 32; ++i)
    block[2 + i] = static_cast<std::byte>(static_cast<std::uint8_t>(q[i]));
}

// Q4_0 and Q5_0: levels from -half to half - 1, stored from 0.
void quantize_centred(const SearchLoops& loops, const float* from, bool five, Block block) {
  const Group group(from, 32);
  const int half = five ? 16 : 8;
  const Levels levels{static_cast<float>(-half), static_cast<float>(half - 1)};
  const float d = to_half_and_back(search_scale(loops, group, levels));
  std::array<int, 32> q;
  to_levels(group, levels, {d, 0}, q);
  for (int& level : q) level += half;
  put_half(block, 0, d);
  if (five) put_fifth_bits(block.subspan(2), q);
  put_nibbles(block.subspan(five ? 6 : 2), q);
}

// Q4_1 and Q5_1.
void quantize_from_least(const SearchLoops& loops, const float* from, bool five, Block block) {
  const Group group(from, 32);
  const Levels levels{0, five ? 31.0f : 15.0f};
  ScaleAndOffset by = search_scale_and_offset(loops, group, levels, false);
  const float least = to_half_and_back(-by.offset);
  by = {to_half_and_back(by.scale), -least};
  std::array<int, 32> q;
  to_levels(group, levels, by, q);
  put_half(block, 0, by.scale);
  put_half(block, 2, least);
  if (five) put_fifth_bits(block.subspan(4), q);
  put_nibbles(block.subspan(five ? 8 : 4), q);
}

// Blocks of 256 have groups with scales (and offsets) of a few bits, and one or two half precision
// numbers that multiply them.
constexpr std::size_t kNumbers = 256;
constexpr std::size_t kMostGroups = 16;

struct Grouped {
  std::size_t size = 0;  // of a group
  Levels levels;
  Levels scales;         // whole numbers that they can be
  bool offsets = false;  // of the same range, and there are any

  std::size_t groups() const { return kNumbers / size; }
};

struct Chosen {
  float d = 0, d_offset = 0;
  std::array<int, kMostGroups> scales{}, offsets{};
  std::array<int, kNumbers> q{};
  double error = 0;  // the sum of squares
};

Group group_of(const float* from, const Grouped& kind, std::size_t g) {
  return {from + g * kind.size, kind.size};
}

ScaleAndOffset value_of(const Chosen& chosen, int scale, int offset) {
  return {chosen.d * static_cast<float>(scale), chosen.d_offset * static_cast<float>(offset)};
}

int nearest(float value, float unit, Levels within) {
  if (unit == 0) return 0;
  return static_cast<int>(std::lrint(std::clamp(value / unit, within.low, within.high)));
}

// Steps from the nearest whole scale and offset: all of three by three, and some further ones,
// most of them where a wider step and a lower start make up for each other.
constexpr std::array<std::pair<int, int>, kTriedAtOnce> kNear = {{{0, 0},
                                                                  {1, 0},
                                                                  {-1, 0},
                                                                  {0, 1},
                                                                  {0, -1},
                                                                  {1, 1},
                                                                  {-1, -1},
                                                                  {1, -1},
                                                                  {-1, 1},
                                                                  {2, 0},
                                                                  {-2, 0},
                                                                  {0, 2},
                                                                  {0, -2},
                                                                  {2, 1},
                                                                  {1, 2},
                                                                  {-1, -2}}};
constexpr auto kNearScales = [] {
  std::array<std::pair<int, int>, kTriedAtOnce> steps{};
  for (int c = 0; c < static_cast<int>(kTriedAtOnce); ++c)
    steps[to_size(c)].first = c - static_cast<int>(kTriedAtOnce) / 2;
  return steps;
}();

// The best of those whole scales, and offsets, that are near what the group itself would have.
void choose_for_group(const SearchLoops& loops, Group group, const Grouped& kind,
                      ScaleAndOffset wanted, std::size_t g, Chosen& chosen) {
  const auto low = static_cast<int>(kind.scales.low), high = static_cast<int>(kind.scales.high);
  const int scale = nearest(wanted.scale, chosen.d, kind.scales);
  const int offset = nearest(wanted.offset, chosen.d_offset, kind.scales);
  const auto near = [&](std::size_t lane) {
    const auto [up, off] = kind.offsets ? kNear[lane] : kNearScales[lane];
    return std::pair(std::clamp(scale + up, low, high), std::clamp(offset + off, low, high));
  };
  Tried tried;
  for (std::size_t c = 0; c < kTriedAtOnce; ++c) {
    const auto [s, o] = near(c);
    tried.set(c, value_of(chosen, s, o));
  }
  Lanes errors;
  loops.errors(group, kind.levels, tried, errors);
  const auto best = std::min_element(errors.begin(), errors.end());
  std::tie(chosen.scales[g], chosen.offsets[g]) = near(to_size(best - errors.begin()));
  chosen.error += static_cast<double>(*best);
}

// With d (and d of the offsets) as they are.
void choose(const SearchLoops& loops, const float* from, const Grouped& kind,
            const std::array<ScaleAndOffset, kMostGroups>& wanted, Chosen& chosen) {
  chosen.d = to_half_and_back(chosen.d);
  chosen.d_offset = to_half_and_back(chosen.d_offset);
  chosen.error = 0;
  for (std::size_t g = 0; g < kind.groups(); ++g) {
    const Group group = group_of(from, kind, g);
    choose_for_group(loops, group, kind, wanted[g], g, chosen);
    to_levels(group, kind.levels, value_of(chosen, chosen.scales[g], chosen.offsets[g]),
              std::span(chosen.q).subspan(g * kind.size, kind.size));
  }
}

// The best d and d of the offsets for scales, offsets and levels as they are: x is about d times
// (scale * q) less d_offset times the offset, two linear equations.
bool refit(const float* from, const Grouped& kind, Chosen& chosen) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const std::size_t g = i / kind.size;
    const double a = chosen.scales[g] * chosen.q[i];
    const double b = -chosen.offsets[g];
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ax += a * static_cast<double>(from[i]);
    bx += b * static_cast<double>(from[i]);
  }
  if (!(aa > 0)) return false;
  double d = ax / aa, d_offset = static_cast<double>(chosen.d_offset);
  const double determinant = aa * bb - ab * ab;
  if (kind.offsets && determinant > 1e-9 * aa * bb) {
    d = (ax * bb - bx * ab) / determinant;
    d_offset = (bx * aa - ax * ab) / determinant;
  } else if (kind.offsets) {
    return false;
  }
  if (kind.offsets && !(d > 0 && d_offset >= 0)) return false;
  chosen.d = static_cast<float>(d);
  chosen.d_offset = static_cast<float>(d_offset);
  return std::abs(chosen.d) <= kLargestHalf && chosen.d_offset <= kLargestHalf;
}

Chosen quantize_grouped(const SearchLoops& loops, const float* from, const Grouped& kind) {
  std::array<ScaleAndOffset, kMostGroups> wanted{};
  ScaleAndOffset largest;
  for (std::size_t g = 0; g < kind.groups(); ++g) {
    const Group group = group_of(from, kind, g);
    if (kind.offsets) {
      wanted[g] = search_scale_and_offset(loops, group, kind.levels, true);
    } else {
      wanted[g].scale = search_scale(loops, group, kind.levels);
    }
    if (std::abs(wanted[g].scale) > std::abs(largest.scale)) largest.scale = wanted[g].scale;
    largest.offset = std::max(largest.offset, wanted[g].offset);
  }
  // Where scales have a sign, the largest takes the side with one more.
  Chosen chosen;
  chosen.d = largest.scale / (kind.scales.low < 0 ? kind.scales.low : kind.scales.high);
  chosen.d_offset = largest.offset / kind.scales.high;
  choose(loops, from, kind, wanted, chosen);
  Chosen refitted = chosen;
  if (refit(from, kind, refitted)) {
    choose(loops, from, kind, wanted, refitted);
    if (refitted.error < chosen.error) return refitted;
  }
  return chosen;
}

// The opposite of two_bits of weight_blocks.cpp.
void put_two_bits(Block bytes, std::size_t i, unsigned bits) {
  put_bits(bytes, 32 * (i / 128) + i % 32, (bits & 3u) << 2 * (i % 128 / 32));
}

void quantize_q2_k(const SearchLoops& loops, const float* from, Block block) {
  const Chosen chosen = quantize_grouped(
      loops, from, {.size = 16, .levels = {0, 3}, .scales = {0, 15}, .offsets = true});
  for (std::size_t g = 0; g < 16; ++g) {
    put_bits(block, g,
             static_cast<unsigned>(chosen.scales[g]) | static_cast<unsigned>(chosen.offsets[g])
                                                           << 4);
  }
  for (std::size_t i = 0; i < kNumbers; ++i)
    put_two_bits(block.subspan(16), i, static_cast<unsigned>(chosen.q[i]));
  put_half(block, 80, chosen.d);
  put_half(block, 82, chosen.d_offset);
}

void quantize_q3_k(const SearchLoops& loops, const float* from, Block block) {
  const Chosen chosen =
      quantize_grouped(loops, from, {.size = 16, .levels = {-4, 3}, .scales = {-32, 31}});
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const auto q = static_cast<unsigned>(chosen.q[i] + 4);
    put_bits(block, i % 32, (q >> 2) << i / 32);
    put_two_bits(block.subspan(32), i, q);
  }
  const Block scales = block.subspan(96, 12);
  for (std::size_t g = 0; g < 16; ++g) {
    const auto s = static_cast<unsigned>(chosen.scales[g] + 32);
    put_bits(scales, g % 8, (s & 15u) << (g < 8 ? 0 : 4));
    put_bits(scales, 8 + g % 4, (s >> 4) << 2 * (g / 4));
  }
  put_half(block, 108, chosen.d);
}

void quantize_q4_or_q5_k(const SearchLoops& loops, const float* from, bool five, Block block) {
  const Chosen chosen = quantize_grouped(
      loops, from,
      {.size = 32, .levels = {0, five ? 31.0f : 15.0f}, .scales = {0, 63}, .offsets = true});
  put_half(block, 0, chosen.d);
  put_half(block, 2, chosen.d_offset);
  const Block twelve = block.subspan(4, 12);
  for (std::size_t g = 0; g < 8; ++g) {
    const auto s = static_cast<unsigned>(chosen.scales[g]);
    const auto o = static_cast<unsigned>(chosen.offsets[g]);
    if (g < 4) {
      put_bits(twelve, g, s);
      put_bits(twelve, g + 4, o);
    } else {
      put_bits(twelve, g + 4, (s & 15u) | (o & 15u) << 4);
      put_bits(twelve, g - 4, s >> 4 << 6);
      put_bits(twelve, g, o >> 4 << 6);
    }
  }
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const auto q = static_cast<unsigned>(chosen.q[i]);
    put_bits(block.subspan(five ? 48 : 16), 32 * (i / 64) + i % 32,
             (q & 15u) << (i % 64 < 32 ? 0 : 4));
    if (five) put_bits(block, 16 + i % 32, (q >> 4) << i / 32);
  }
}

void quantize_q6_k(const SearchLoops& loops, const float* from, Block block) {
  const Chosen chosen =
      quantize_grouped(loops, from, {.size = 16, .levels = {-32, 31}, .scales = {-128, 127}});
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const auto q = static_cast<unsigned>(chosen.q[i] + 32);
    put_bits(block, 64 * (i / 128) + i % 64, (q & 15u) << (i % 128 < 64 ? 0 : 4));
    put_two_bits(block.subspan(128), i, q >> 4);
  }
  for (std::size_t g = 0; g < 16; ++g)
    block[192 + g] = static_cast<std::byte>(static_cast<std::uint8_t>(chosen.scales[g]));
  put_half(block, 208, chosen.d);
}

void quantize_block(const SearchLoops& loops, WeightType type, const float* from, Block block) {
  switch (type) {
    case WeightType::q4_0: return quantize_centred(loops, from, false, block);
    case WeightType::q4_1: return quantize_from_least(loops, from, false, block);
    case WeightType::q5_0: return quantize_centred(loops, from, true, block);
    case WeightType::q5_1: return quantize_from_least(loops, from, true, block);
    case WeightType::q8_0: return quantize_q8_0(from, block);
    case WeightType::q2_k: return quantize_q2_k(loops, from, block);
    case WeightType::q3_k: return quantize_q3_k(loops, from, block);
    case WeightType::q4_k: return quantize_q4_or_q5_k(loops, from, false, block);
    case WeightType::q5_k: return quantize_q4_or_q5_k(loops, from, true, block);
    case WeightType::q6_k: return quantize_q6_k(loops, from, block);
    case WeightType::f32:
    case WeightType::bf16:
    case WeightType::f16: break;  // not in blocks
  }
}

}  // namespace

void quantize_blocks(WeightType type, std::span<const float> from, std::span<std::byte> to,
                     const SearchLoops& loops) {
  const Grain grain = grain_of(type);
  const std::size_t numbers = to_size(grain.per), bytes = to_size(grain.bytes);
  std::ranges::fill(to, std::byte{0});
  for (std::size_t b = 0; b < from.size() / numbers; ++b)
    quantize_block(loops, type, from.data() + b * numbers, to.subspan(b * bytes, bytes));
}

}  // namespace ebb::kernels
