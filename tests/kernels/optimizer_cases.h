// What the tests of the optimizer's kernels share: data that holds every kind of number, the
// instruction sets of this processor, and equality of bits where NaN equals NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "hwy/targets.h"
#include "kernels/cpu/isa.h"

namespace ebb::kernels::optimizer_cases {

// Sends every later dispatch to one instruction set, until it goes out of scope.
class OnlyTarget {
 public:
  explicit OnlyTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

// Kernels that fetch ahead, or those that do not, whatever pays here.
class OnlyFetching {
 public:
  explicit OnlyFetching(bool pays) : before_(fetching_pays()) { set_fetching(pays); }
  ~OnlyFetching() { set_fetching(before_); }
  OnlyFetching(const OnlyFetching&) = delete;
  OnlyFetching& operator=(const OnlyFetching&) = delete;

 private:
  bool before_;
};

// All that Highway knows and this processor has, with and without FMA.
inline std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> result;
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    result.push_back(left & -left);
  }
  return result;
}

inline bool same_number(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
inline bool same_number(bf16 a, bf16 b) { return same_number(to_float(a), to_float(b)); }

// By index, in turn: any pattern of bits (infinities and NaN among them, which a state never loses
// again), any finite one (all exponents, denormals), and twice a number as in training.
inline float any_number(const CounterRng& rng, std::uint64_t index, double size) {
  if (index % 4 >= 2) return static_cast<float>(rng.normal(index) * size);
  const std::uint64_t bits = rng.bits(index);
  const auto pattern = static_cast<std::uint32_t>(bits >> 32);
  const std::uint32_t sign = pattern & 0x80000000u;
  switch (bits % 8) {
    case 0: return std::bit_cast<float>(pattern & 0x807fffffu);  // denormal or zero
    case 1: return std::bit_cast<float>(index % 4 == 0 ? sign | 0x7f800000u : sign);
    case 2: return std::bit_cast<float>(index % 4 == 0 ? 0x7fc00000u : sign | 0x7f7fffffu);
    default: break;
  }
  const float value = std::bit_cast<float>(pattern);
  return index % 4 == 0 || std::isfinite(value) ? value : 0.0f;
}

// An array of `type`, with `offset` unused elements before and 16 behind, which no kernel may
// touch.
class Array {
 public:
  Array(DType type, std::int64_t count, std::int64_t offset)
      : type_(type),
        offset_(offset),
        bytes_(static_cast<std::size_t>((count + offset + 16) * size_of(type))) {}

  void fill(std::uint64_t seed, std::uint64_t stream, double size) {
    const CounterRng rng(seed, stream);
    for (std::int64_t i = 0; i < whole(); ++i) {
      set(i, any_number(rng, static_cast<std::uint64_t>(i), size));
    }
  }

  DType type() const { return type_; }
  void* data() { return bytes_.data() + offset_ * size_of(type_); }
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }
  float at(std::int64_t i) const {  // from the very start of the array
    return type_ == DType::f32 ? base<float>()[i] : to_float(base<bf16>()[i]);
  }
  void set(std::int64_t i, float value) {  // from the very start too
    type_ == DType::f32 ? base<float>()[i] = value : (base<bf16>()[i] = to_bf16(value), 0.0f);
  }
  std::int64_t whole() const { return static_cast<std::int64_t>(bytes_.size()) / size_of(type_); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class T>
  T* base() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* base() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }

  DType type_;
  std::int64_t offset_;
  std::vector<std::byte> bytes_;
};

}  // namespace ebb::kernels::optimizer_cases
