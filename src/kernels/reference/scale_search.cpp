#include "kernels/reference/scale_search.h"

#include <algorithm>
#include <cmath>

namespace ebb::kernels {
namespace {

// What is smaller is nothing beside the least scale that a file can hold (2^-24), and would only
// make quotients overflow.
constexpr float kNothing = 0x1p-40f;

// Rounds to nearest even where |value| is below 2^22: levels are.
float round_small(float value) {
  constexpr float shift = 0x1.8p23f;
  return (value + shift) - shift;
}

// The numbers' extremes.
struct Range {
  float least = 0, most = 0;
};

Range range_of(Group group) {
  Range range{group.front(), group.front()};
  for (const float x : group) {
    range.least = std::min(range.least, x);
    range.most = std::max(range.most, x);
  }
  return range;
}

float inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }

float level_of(float value, Levels levels) {
  return round_small(std::min(std::max(value, levels.low), levels.high));
}

void sums_of_levels(Group group, Levels levels, const Lanes& inverses, float offset,
                    LevelSums& to) {
  to = {};
  for (const float x : group) {
    const float t = x + offset;
    for (std::size_t c = 0; c < kTriedAtOnce; ++c) {
      const float q = level_of(t * inverses[c], levels);
      to.q[c] += q;
      to.qq[c] += q * q;
      to.qt[c] += q * t;
    }
  }
}

void sums_of_errors(Group group, Levels levels, const Tried& tried, Lanes& to) {
  to = {};
  for (const float x : group) {
    for (std::size_t c = 0; c < kTriedAtOnce; ++c) {
      const float q = level_of((x + tried.offsets[c]) * tried.inverses[c], levels);
      const float error = tried.scales[c] * q - tried.offsets[c] - x;
      to[c] += error * error;
    }
  }
}

}  // namespace

SearchLoops reference_search_loops() { return {sums_of_levels, sums_of_errors}; }

void Tried::set(std::size_t lane, ScaleAndOffset by) {
  scales[lane] = by.scale;
  offsets[lane] = by.offset;
  inverses[lane] = inverse(by.scale);
}

// For given levels the best scale is qt / qq, and takes qt^2 / qq off the sum of squares.
float search_scale(const SearchLoops& loops, Group group, Levels levels) {
  const Range range = range_of(group);
  const float extreme = -range.least > range.most ? range.least : range.most;
  if (std::abs(extreme) < kNothing) return 0;
  float best = 0;
  float best_gain = -1;
  // The extreme goes to the outermost level of either side, to less than that, or some beyond it,
  // where it is cut off: few levels gain more from fine steps than they lose by one number.
  constexpr std::size_t half = kTriedAtOnce / 2;
  const float step = (std::min(1.5f, levels.high / 2) + 0.6f) / (half - 1);
  Lanes inverses;
  for (std::size_t c = 0; c < half; ++c) {
    const float beyond = step * static_cast<float>(c) - 0.6f;
    inverses[c] = (levels.low - beyond) / extreme;
    inverses[half + c] = (levels.high + beyond) / extreme;
  }
  LevelSums sums;
  loops.sums(group, levels, inverses, 0, sums);
  for (std::size_t c = 0; c < kTriedAtOnce; ++c) {
    if (!(sums.qq[c] > 0)) continue;
    const float gain = sums.qt[c] * sums.qt[c] / sums.qq[c];
    if (gain > best_gain) {
      best_gain = gain;
      best = sums.qt[c] / sums.qq[c];
    }
  }
  return best;
}

// For given levels the best scale and offset solve two linear equations. They are written in
// distances from the least number: offsets may be large beside the differences.
ScaleAndOffset search_scale_and_offset(const SearchLoops& loops, Group group, Levels levels,
                                       bool only_below) {
  Range range = range_of(group);
  if (only_below) range.least = std::min(range.least, 0.0f);
  const float least = range.least;
  const float width = range.most - least;
  if (!(width >= kNothing)) return {0, -least};
  const auto n = static_cast<float>(group.size());
  float sum = 0;
  for (const float x : group) sum += x - least;
  ScaleAndOffset best{width / levels.high, -least};
  float best_gain = -1;
  // From some steps less than the levels take to some more, where both ends are cut off.
  const float step = levels.high < 8 ? 0.16f : 0.2f;
  Lanes inverses;
  for (std::size_t c = 0; c < kTriedAtOnce; ++c) {
    inverses[c] = (levels.high - 0.5f + step * static_cast<float>(c)) / width;
  }
  LevelSums sums;
  loops.sums(group, levels, inverses, -least, sums);
  for (std::size_t c = 0; c < kTriedAtOnce; ++c) {
    const float determinant = n * sums.qq[c] - sums.q[c] * sums.q[c];
    if (!(determinant > 0)) continue;
    float scale = (n * sums.qt[c] - sums.q[c] * sum) / determinant;
    const float shift = (sums.qq[c] * sum - sums.q[c] * sums.qt[c]) / determinant;
    float offset = -(least + shift);
    // What these take off the sum of squared distances.
    float gain = scale * sums.qt[c] + shift * sum;
    if (only_below && offset < 0) {
      const float qx = sums.qt[c] + least * sums.q[c];
      scale = qx / sums.qq[c];
      offset = 0;
      gain = scale * qx - least * (2 * sum + n * least);
    }
    if (scale > 0 && gain > best_gain) {
      best_gain = gain;
      best = {scale, offset};
    }
  }
  return best;
}

void to_levels(Group group, Levels levels, ScaleAndOffset by, std::span<int> to) {
  const float inverted = inverse(by.scale);
  for (std::size_t i = 0; i < group.size(); ++i) {
    to[i] = static_cast<int>(level_of((group[i] + by.offset) * inverted, levels));
  }
}

}  // namespace ebb::kernels
