// A shuffle of [0, size) that needs no memory: any element of it is computed alone.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "base/rng.h"

namespace ebb::text {

// A Feistel network over the smallest power of four that holds `size`, keyed by seed and epoch. A
// value that lands beyond `size` is sent through again until it lands inside; since the network is
// a bijection of the larger range, that is one of the smaller. The range is below 4 * size, so a
// value takes fewer than four passes on average.
class Permutation {
 public:
  // `size` is not 0.
  constexpr Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
      : size_(size),
        half_bits_((std::bit_width(size - 1) + 1) / 2),
        rng_(seed, mix_bits(epoch ^ kStream)) {}

  // Where `index`, below size, goes.
  constexpr std::uint64_t operator()(std::uint64_t index) const {
    do index = pass(index);
    while (index >= size_);
    return index;
  }

 private:
  // Keeps the shuffle's numbers apart from other uses of the run's seed ("shuffle" in ASCII).
  static constexpr std::uint64_t kStream = 0x73687566666c65;
  // Four are enough to look random on large ranges; tiny ones need more to mix at all.
  static constexpr std::uint64_t kRounds = 8;

  constexpr std::uint64_t pass(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      left ^= rng_.bits((round << 32) | right) & mask;
      std::swap(left, right);
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t size_;
  int half_bits_;  // at most 32: a half fits below the round's number
  CounterRng rng_;
};

}  // namespace ebb::text
