// The scale and the offset with which a few numbers are closest to whole ones: what quantizing a
// block is made of. A number x becomes q = round((x + offset) / scale), kept within the levels that
// a type has, and comes back as scale * q - offset; what is searched for has the least sum of
// squared errors of those that are tried.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace ebb::kernels {

// Whole numbers from `low` to `high`.
struct Levels {
  float low = 0;
  float high = 0;
};

struct ScaleAndOffset {
  float scale = 0;
  float offset = 0;
};

// Numbers that share a scale: 16 or 32, finite.
using Group = std::span<const float>;

// So many scales are tried at once, side by side: a sum over a group has an order, which stands in
// the way of vectors.
inline constexpr std::size_t kTriedAtOnce = 16;
using Lanes = std::array<float, kTriedAtOnce>;

// Sums over a group, with t = x + offset, of the levels, their squares and their products with t.
struct alignas(64) LevelSums {
  Lanes q{}, qq{}, qt{};
};

struct alignas(64) Tried {
  Lanes scales{}, offsets{}, inverses{};

  void set(std::size_t lane, ScaleAndOffset by);
};

// The two loops that all the time goes into. Every sum begins with 0 and takes the group's numbers
// in their order, every operation is rounded on its own: others that do so give the same bits.
struct SearchLoops {
  void (*sums)(Group group, Levels levels, const Lanes& inverses, float offset, LevelSums& to);
  // Sums of squared errors, as the numbers come back from a file.
  void (*errors)(Group group, Levels levels, const Tried& tried, Lanes& to);
};
SearchLoops reference_search_loops();

// Without an offset: the levels lie about zero. The scale may be negative, so that the side with
// one level more takes the largest number.
float search_scale(const SearchLoops& loops, Group group, Levels levels);

// With an offset, which is at least 0 where `only_below`; the scale is not negative.
ScaleAndOffset search_scale_and_offset(const SearchLoops& loops, Group group, Levels levels,
                                       bool only_below);

// The level that each number gets; of scale 0 it is 0.
void to_levels(Group group, Levels levels, ScaleAndOffset by, std::span<int> to);

}  // namespace ebb::kernels
