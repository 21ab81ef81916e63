#include "kernels/reference/linear.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/to_size.h"
#include "kernels/reference/weight_blocks.h"

namespace ebb::kernels::reference {
namespace {

float element_of(const void* data, DType type, std::int64_t at) {
  return type == DType::f32 ? static_cast<const float*>(data)[at]
                            : to_float(static_cast<const bf16*>(data)[at]);
}

void store_element(View y, std::int64_t i, std::int64_t j, float value) {
  const std::int64_t at = i * y.stride + j;
  if (y.type == DType::f32) {
    static_cast<float*>(y.data)[at] = value;
  } else {
    static_cast<bf16*>(y.data)[at] = to_bf16(value);
  }
}

List<float> row_of(ConstView x, std::int64_t i) {
  List<float> row(x.cols);
  for (std::int64_t k = 0; k < x.cols; ++k) row[k] = element_of(x.data, x.type, i * x.stride + k);
  return row;
}

List<float> row_of(const WeightMatrix& weights, std::int64_t i) {
  List<float> row(weights.cols);
  widen_blocks(weights.type, {weights.row(i), to_size(weights.row_bytes())}, row);
  return row;
}

using Partial = std::array<float, 16>;

float added(Partial s, std::size_t count) {
  for (std::size_t n = count / 2; n > 0; n /= 2) {
    for (std::size_t l = 0; l < n; ++l) s[l] += s[l + n];
  }
  return s[0];
}

}  // namespace

EightBitRow eight_bit_row(std::span<const float> x) {
  const auto count = static_cast<std::int64_t>(x.size());
  EightBitRow row{List<std::int8_t>(count), List<float>(count / kEightBitBlock)};
  for (std::int64_t b = 0; b < row.scale.count(); ++b) {
    const auto block = x.subspan(to_size(b * kEightBitBlock), to_size(kEightBitBlock));
    float largest = 0;
    bool finite = true;
    for (const float value : block) {
      finite = finite && std::isfinite(value);
      largest = std::max(largest, std::abs(value));
    }
    if (!finite) row.scale[b] = std::numeric_limits<float>::quiet_NaN();
    if (!finite || largest < 0x1p-100f) continue;
    row.scale[b] = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (std::int64_t i = 0; i < kEightBitBlock; ++i) {
      const float q = std::nearbyint(block[to_size(i)] * inverse);
      row.q[b * kEightBitBlock + i] = static_cast<std::int8_t>(q);
    }
  }
  return row;
}

float dot(std::span<const float> x, std::span<const float> w) {
  Partial s{};
  for (std::size_t k = 0; k < x.size(); ++k) s[k % 16] = std::fma(x[k], w[k], s[k % 16]);
  return added(s, 16);
}

float dot_of_pairs(std::span<const float> x, std::span<const float> w) {
  Partial s{};
  for (std::size_t k = 0; k < x.size(); ++k) {
    float& to = s[k % 32 / 2];
    to = std::fma(x[k], w[k], to);
  }
  return added(s, 16);
}

float dot(const EightBitRow& x, const WeightMatrix& weights, std::int64_t row) {
  const Grain grain = grain_of(weights.type);
  Partial s{}, offsets{};
  TakenBlock block;
  for (std::int64_t first = 0; first < weights.cols; first += grain.per) {
    const std::byte* const at = weights.row(row) + first / grain.per * grain.bytes;
    take_block(weights.type, {at, to_size(grain.bytes)}, block);
    for (std::int64_t i = 0; i < grain.per; i += 4) {
      const std::int64_t k = first + i, g = i / block.group;
      int t = 0;
      for (std::int64_t j = 0; j < 4; ++j) t += x.q[k + j] * block.q[i + j];
      float& to = s[to_size(k % 64 / 4)];
      to = std::fma(block.scale[g] * x.scale[k / kEightBitBlock], static_cast<float>(t), to);
    }
    if (!has_offsets(weights.type)) continue;
    for (std::int64_t i = 0; i < grain.per; i += block.group) {
      const std::int64_t k = first + i;
      int t = 0;
      for (std::int64_t j = 0; j < block.group; ++j) t += x.q[k + j];
      float& to = offsets[to_size(k % 256 / block.group)];
      const float sum = x.scale[k / kEightBitBlock] * static_cast<float>(t);
      to = std::fma(block.offset[i / block.group], sum, to);
    }
  }
  const float sum = added(s, 16);
  return has_offsets(weights.type) ? sum - added(offsets, to_size(256 / block.group)) : sum;
}

void linear(View y, ConstView x, const WeightMatrix& weights, const LinearOptions& options) {
  const bool eight_bits = x.type == DType::bf16 && in_blocks(weights.type);
  const bool pairs = x.type == DType::bf16 && weights.type == WeightType::bf16;
  for (std::int64_t i = 0; i < y.rows; ++i) {
    const List<float> from = row_of(x, i);
    const EightBitRow narrow = eight_bits ? eight_bit_row(from) : EightBitRow{};
    for (std::int64_t j = 0; j < y.cols; ++j) {
      float sum = eight_bits ? dot(narrow, weights, j)
                  : pairs    ? dot_of_pairs(from, row_of(weights, j))
                             : dot(from, row_of(weights, j));
      if (options.bias != nullptr) sum += element_of(options.bias, y.type, j);
      if (options.addend != nullptr) sum += element_of(options.addend, y.type, i * y.stride + j);
      store_element(y, i, j, sum);
    }
  }
}

void embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids, float scale,
           std::int64_t first) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const std::int64_t row = ids[to_size(i)] - first;
    if (row < 0 || row >= table.rows) continue;
    const List<float> from = row_of(table, row);
    for (std::int64_t j = 0; j < out.cols; ++j) store_element(out, i, j, from[j] * scale);
  }
}

}  // namespace ebb::kernels::reference
