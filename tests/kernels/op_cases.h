// The table of model ops: what each case is called, its operands, and the call. The same table is
// run as comparison (model_ops_test.cpp) and as benchmark (bench/model_ops_bench.cpp).
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/model_ops.h"

namespace ebb::kernels {

enum class Role { input, output, inout, scratch };  // scratch: anything may be left there

struct Operand {
  std::string name;
  Role role = Role::input;
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t padding = 0;  // elements after each row that belong to nobody
  double deviation = 1.0;    // of normal values; for i32: values are uniform below `bound`
  double mean = 0.0;
  std::int64_t bound = 0;
};

// An operand in memory. Padded ones also start at an odd address, or 8 elements further on where
// the padding is a multiple of that. Outputs and everything that belongs to nobody is 0xff (NaN),
// which an op must overwrite or leave alone, respectively.
class Buffer {
 public:
  Buffer(const Operand& operand, std::uint64_t seed) : operand_(operand) {
    const std::int64_t count = operand.rows * stride() + offset();
    bytes_.assign(static_cast<std::size_t>(count * size_of(operand.type)) + 64, std::byte{0xff});
    const CounterRng rng(seed, std::hash<std::string>{}(operand.name));
    if (operand.role == Role::output) return;
    for (std::int64_t i = 0; i < operand.rows; ++i) {
      for (std::int64_t j = 0; j < operand.cols; ++j) fill(i, j, rng);
    }
  }

  const Operand& operand() const { return operand_; }
  std::int64_t stride() const { return operand_.cols + operand_.padding; }
  View view() { return {data(), operand_.type, operand_.rows, operand_.cols, stride()}; }
  void* data() { return bytes_.data() + offset() * size_of(operand_.type); }
  float* floats() { return static_cast<float*>(data()); }
  std::span<std::int32_t> ids() {
    return {static_cast<std::int32_t*>(data()), static_cast<std::size_t>(operand_.cols)};
  }
  float value(std::int64_t i, std::int64_t j) const {
    const std::byte* from = bytes_.data() + (offset() + i * stride() + j) * size_of(operand_.type);
    if (operand_.type == DType::f32) return read<float>(from);
    return to_float(read<bf16>(from));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Whether what belongs to nobody is still as it was.
  bool padding_untouched() const {
    std::vector<std::byte> now = bytes_;
    const Bytes size = size_of(operand_.type);
    for (std::int64_t i = 0; i < operand_.rows; ++i) {
      std::memset(now.data() + (offset() + i * stride()) * size, 0xff,
                  static_cast<std::size_t>(operand_.cols * size));
    }
    for (const std::byte b : now) {
      if (b != std::byte{0xff}) return false;
    }
    return true;
  }

 private:
  template <class T>
  static T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::int64_t offset() const {
    if (operand_.padding % 8 == 0) return std::min<std::int64_t>(operand_.padding, 8);
    return 1;
  }
  void fill(std::int64_t i, std::int64_t j, const CounterRng& rng) {
    const auto index = static_cast<std::uint64_t>(i * operand_.cols + j);
    std::byte* to = bytes_.data() + (offset() + i * stride() + j) * size_of(operand_.type);
    if (operand_.type == DType::i32) {
      const auto id =
          static_cast<std::int32_t>(rng.below(index, static_cast<std::uint64_t>(operand_.bound)));
      std::memcpy(to, &id, sizeof id);
      return;
    }
    const auto value = static_cast<float>(operand_.mean + operand_.deviation * rng.normal(index));
    const bf16 narrow = to_bf16(value);
    operand_.type == DType::f32 ? std::memcpy(to, &value, 4) : std::memcpy(to, &narrow, 2);
  }

  Operand operand_;
  std::vector<std::byte> bytes_;
};

using Buffers = std::vector<Buffer>;

struct OpCase {
  std::string name;
  std::vector<Operand> operands;
  std::function<void(ModelOps&, Buffers&)> run;
  double tolerance = 1e-5;  // absolute, beside the rounding of the stored type
  // Fills inputs that are another op's results.
  std::function<void(ModelOps&, Buffers&)> prepare = nullptr;

  Buffers make(std::uint64_t seed) const {
    Buffers buffers;
    for (const Operand& operand : operands) buffers.emplace_back(operand, seed);
    return buffers;
  }
};

}  // namespace ebb::kernels
