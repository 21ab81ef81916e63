#include "states/convert.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/to_size.h"
#include "kernels/moment_codes.h"

namespace ebb::states {
namespace {

using kernels::StateFormat;
using kernels::StateSpan;

// In place of random bits: half of what is dropped.
constexpr std::uint32_t kHalfOfBf16 = 1u << 15;
constexpr std::uint32_t kHalfOfFirst = 1u << (kernels::kFractionBits - 1);
constexpr std::uint32_t kHalfOfSecond = 1u << (kernels::kSecondDropped - 1);

void copy_floats(void* to, const void* from, std::int64_t count) {
  if (to == nullptr || from == nullptr) return;
  std::memcpy(to, from, to_size(count) * sizeof(float));
}

// Where the span's planes have the code of its i-th element.
std::int64_t code_of(std::int64_t i) {
  const std::int64_t in_block = i % kernels::kStateBlock;
  return i - in_block + kernels::code_index(in_block);
}

float largest(const float* values, std::int64_t count) {
  std::uint32_t most = 0;  // bits: a NaN is larger than all numbers
  for (std::int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu);
  }
  return std::bit_cast<float>(most);
}

}  // namespace

void widen_moments(const StateSpan& from, float* first, float* second) {
  if (from.format == StateFormat::exact) {
    copy_floats(first, from.first, from.count);
    copy_floats(second, from.second, from.count);
    return;
  }
  const auto widen = [&](float* to, auto&& value) {
    if (to == nullptr) return;
    for (std::int64_t i = 0; i < from.count; ++i) to[i] = value(i);
  };
  if (from.format == StateFormat::bf16) {
    widen(first, [&](std::int64_t i) { return to_float(static_cast<const bf16*>(from.first)[i]); });
    widen(second,
          [&](std::int64_t i) { return to_float(static_cast<const bf16*>(from.second)[i]); });
    return;
  }
  const auto* first_codes = static_cast<const std::uint8_t*>(from.first);
  const auto* second_codes = static_cast<const std::uint8_t*>(from.second);
  const auto scales = [&](std::int64_t i) { return from.scales + i / kernels::kStateBlock * 2; };
  widen(first, [&](std::int64_t i) {
    return kernels::decode_first(first_codes[code_of(i)], scales(i)[0]);
  });
  widen(second, [&](std::int64_t i) {
    return kernels::decode_second(second_codes[code_of(i)], scales(i)[1]);
  });
}

void narrow_moments(const float* first, const float* second, const StateSpan& to) {
  if (to.format == StateFormat::exact) {
    copy_floats(to.first, first, to.count);
    copy_floats(to.second, second, to.count);
    return;
  }
  if (to.format == StateFormat::bf16) {
    for (std::int64_t i = 0; i < to.count; ++i) {
      static_cast<bf16*>(to.first)[i] = kernels::round_at_random(first[i], kHalfOfBf16);
      static_cast<bf16*>(to.second)[i] = kernels::round_at_random(second[i], kHalfOfBf16);
    }
    return;
  }
  for (std::int64_t start = 0; start < to.count; start += kernels::kStateBlock) {
    const std::int64_t length = std::min(kernels::kStateBlock, to.count - start);
    std::uint8_t* scales = to.scales + start / kernels::kStateBlock * 2;
    scales[0] = kernels::first_scale(largest(first + start, length));
    scales[1] = kernels::second_scale(largest(second + start, length));
    for (std::int64_t i = start; i < start + length; ++i) {
      static_cast<std::uint8_t*>(to.first)[code_of(i)] =
          kernels::encode_first(first[i], scales[0], kHalfOfFirst);
      static_cast<std::uint8_t*>(to.second)[code_of(i)] =
          kernels::encode_second(second[i], scales[1], kHalfOfSecond);
    }
  }
}

}  // namespace ebb::states
