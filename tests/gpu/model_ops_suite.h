// What the tests of the CUDA model ops share: a case is run on the GPU and compared with
// ReferenceOps. Results are within rounding, bitwise the same when run again over other leftovers
// in memory and scratch (a promise: results depend on shapes and values alone), and never outside
// of their operands or scratch. Skipped where there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include "ebb/error.h"
#include "gpu/model_mirror.h"
#include "kernels/counting_ops.h"
#include "kernels/cuda/model_library.h"
#include "kernels/op_table.h"
#include "kernels/reference/reference_ops.h"

namespace ebb::kernels {

constexpr std::uint64_t kSeed = 7;

// Rows and columns: odd ones, such that fill vectors, long and wide ones.
constexpr std::pair<std::int64_t, std::int64_t> kSizes[] = {
    {1, 1},    {3, 7},     {5, 16},    {17, 33},   {2, 129},
    {300, 65}, {40, 1031}, {2200, 64}, {70, 2048}, {9, 16384}};

class ModelOpsSuite : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = device::create_device("cuda");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    mirror_ = std::make_unique<DeviceMirror>(*device_);
    library_ = create_cuda_model_library();
  }

  Bound<ModelOps> ops(std::span<std::byte> scratch) {
    return library_->ops({.stream = &mirror_->stream(), .scratch = scratch});
  }

  Bytes scratch_for(const OpCase& c, Buffers& buffers) {
    CountingOps counting(*library_);
    c.run(counting, buffers);
    // A program multiplies matrices somewhere; sums of rows count on that.
    return std::max(counting.take().scratch, library_->matmul_scratch({}, {}, {}, {}));
  }

  void run(const OpCase& c, Buffers& buffers, std::uint8_t poison) {
    mirror_->mirror(buffers, scratch_for(c, buffers), poison);
    auto ops = this->ops(mirror_->scratch());
    MirroredOps mirrored(ops, *mirror_);
    c.run(mirrored, buffers);
    EXPECT_TRUE(mirror_->guard_untouched(poison)) << c.name << ": wrote behind the scratch";
  }

  void expect_matches_reference(const OpCase& c);

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<DeviceMirror> mirror_;
  std::unique_ptr<ModelLibrary> library_;
};

inline double allowed(const OpCase& c, DType type, double expected) {
  const double rounding = type == DType::f32 ? 1e-5 : 0x1p-7;
  // cuBLASLt may round a product before it adds to it; neither term is larger than some units.
  const auto has = [&](const char* word) { return c.name.find(word) != std::string::npos; };
  const bool added =
      c.name.starts_with("matmul") && (has("accumulate") || has("addend") || has("bias"));
  const double before = added && type == DType::bf16 ? 0x1p-8 * 4 : 0;
  return c.tolerance + before + (c.tolerance == 0 ? 0 : rounding * std::abs(expected));
}

inline void expect_near(const OpCase& c, const Buffer& expected, const Buffer& found) {
  const Operand& operand = expected.operand();
  ASSERT_TRUE(found.padding_untouched()) << c.name << ": wrote outside of " << operand.name;
  for (std::int64_t i = 0; i < operand.rows; ++i) {
    for (std::int64_t j = 0; j < operand.cols; ++j) {
      const double want = expected.value(i, j), got = found.value(i, j);
      ASSERT_TRUE(std::abs(want - got) <= allowed(c, operand.type, want))
          << c.name << ", seed " << kSeed << ": " << operand.name << "[" << i << "][" << j
          << "] expected " << want << ", found " << got;
    }
  }
}

inline void expect_same_bits(const OpCase& c, const Buffer& expected, const Buffer& found,
                             const char* what) {
  const auto& a = expected.bytes();
  const auto& b = found.bytes();
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  ASSERT_EQ(at, static_cast<std::ptrdiff_t>(a.size()))
      << c.name << ": " << expected.operand().name << " " << what << ", at byte " << at;
}

inline void ModelOpsSuite::expect_matches_reference(const OpCase& c) {
  ReferenceOps reference;
  Buffers inputs = c.make(kSeed);
  if (c.prepare) c.prepare(reference, inputs);
  Buffers expected = inputs;
  c.run(reference, expected);
  Buffers first = inputs, second = inputs;
  ASSERT_NO_THROW(run(c, first, 0xff)) << c.name;
  ASSERT_NO_THROW(run(c, second, 0x5a)) << c.name;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].operand().type == DType::i32) continue;
    if (inputs[i].operand().role == Role::input) {
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, inputs[i], first[i], "is an input and changed"));
    } else if (inputs[i].operand().role == Role::scratch) {
      ASSERT_TRUE(first[i].padding_untouched()) << c.name;
    } else {
      ASSERT_NO_FATAL_FAILURE(expect_near(c, expected[i], first[i]));
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, first[i], second[i], "differs when run again"));
  }
}

}  // namespace ebb::kernels
