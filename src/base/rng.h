// Random numbers from counters: a value depends on its key and index alone, so any thread can make
// any part of a sequence, and a position in it is one integer to save.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace ebb {

// A strong mix of 64 bits (the finalizer of splitmix64).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class CounterRng {
 public:
  constexpr CounterRng(std::uint64_t seed, std::uint64_t stream)
      : key_(mix_bits(seed ^ mix_bits(stream))) {}

  constexpr std::uint64_t bits(std::uint64_t index) const {
    return mix_bits(key_ ^ mix_bits(index));
  }

  // A number in [0, 1) with 53 random bits.
  constexpr double uniform(std::uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }

  // In [0, bound) without bias worth speaking of (bound is far below 2^64).
  constexpr std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(bits(index)) * bound) >> 64);
  }

  // Standard normal (Box-Muller on two uniforms of the index).
  double normal(std::uint64_t index) const {
    const double u = 1.0 - uniform(2 * index);
    const double angle = 2.0 * std::numbers::pi * uniform(2 * index + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
  }

 private:
  std::uint64_t key_;
};

}  // namespace ebb
