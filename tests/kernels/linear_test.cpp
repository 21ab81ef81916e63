// Products with stored weights: the bits of the reference on every instruction set, rows that know
// nothing of their neighbours, and 8-bit rows within the bound that their rounding has.
#include "kernels/reference/linear.h"

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "base/thread_pool.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "hwy/targets.h"
#include "kernels/counting_ops.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/estimated_needs.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/reference/weight_blocks.h"
#include "kernels/stored_weights.h"
#include "print.h"

namespace ebb::kernels {
namespace {

constexpr std::uint64_t kSeed = 11;

struct Shape {
  std::int64_t rows, outputs, cols;
};

// A matrix of f32 or bf16 whose rows are further apart than they are long.
class Matrix {
 public:
  Matrix(DType type, std::int64_t rows, std::int64_t cols, std::uint64_t stream)
      : view_{nullptr, type, rows, cols, cols + 3} {
    bytes_.assign(to_size((rows * view_.stride + 1) * size_of(type)), std::byte{0xff});
    view_.data = bytes_.data() + size_of(type);
    const CounterRng rng(kSeed, stream);
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      set(i / cols, i % cols, static_cast<float>(rng.normal(static_cast<std::uint64_t>(i))));
    }
  }
  Matrix(const Matrix& other) : bytes_(other.bytes_), view_(other.view_) {
    view_.data = bytes_.data() + size_of(view_.type);
  }
  Matrix& operator=(const Matrix&) = delete;

  View view() const { return view_; }
  View row(std::int64_t i) const {
    View row = view_;
    row.data = bytes_.data() + (1 + i * view_.stride) * size_of(view_.type), row.rows = 1;
    return row;
  }
  float value(std::int64_t i, std::int64_t j) const {
    const void* const at = bytes_.data() + (1 + i * view_.stride + j) * size_of(view_.type);
    return view_.type == DType::f32 ? *static_cast<const float*>(at)
                                    : to_float(*static_cast<const bf16*>(at));
  }
  void set(std::int64_t i, std::int64_t j, float value) {
    void* const at = bytes_.data() + (1 + i * view_.stride + j) * size_of(view_.type);
    if (view_.type == DType::f32) {
      *static_cast<float*>(at) = value;
    } else {
      *static_cast<bf16*>(at) = to_bf16(value);
    }
  }
  bool operator==(const Matrix& other) const { return bytes_ == other.bytes_; }

 private:
  mutable List<std::byte> bytes_;
  View view_;
};

void run(ModelLibrary& library, const Linear& call) {
  std::vector<std::byte> scratch(to_size(library.linear_scratch(call)));
  auto ops = library.ops({.scratch = scratch});
  ops->linear(call);
}

// NaN is NaN, whatever its sign and payload.
bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b)
                       : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

class EveryInstructionSet : public testing::TestWithParam<WeightType> {
 protected:
  void TearDown() override { use(0); }
  static void use(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  }
  // Calls body with all that the machine has, without AVX-512, and where `slow` without AVX2, which
  // is the reference itself.
  template <class Body>
  static void for_sets(bool slow, const Body& body) {
    use(0);
    const std::int64_t all = hwy::SupportedTargets();
    const std::int64_t narrow = all & ~(HWY_AVX3 | HWY_AVX3_DL);
    std::vector<std::int64_t> sets = {all};
    if (narrow != all) sets.push_back(narrow);
    if (slow && (narrow & ~HWY_AVX2) != 0) sets.push_back(narrow & ~HWY_AVX2);
    for (const std::int64_t set : sets) {
      use(set);
      SCOPED_TRACE(hwy::TargetName(set & -set));
      body();
      if (HasFatalFailure()) break;
    }
    use(0);
  }
};

// The processor's own dot product of bf16 rounds in its own way: within the rounding of sums.
double allowed(DType x, WeightType weights, const Matrix& a, std::int64_t i, const List<float>& w) {
  if (arithmetic_of(x, weights) != LinearArithmetic::pairs) return 0;
  double sum = 0;
  for (std::int64_t k = 0; k < w.count(); ++k) sum += std::abs(double{a.value(i, k)} * w[k]);
  return sum * 0x1p-23 * static_cast<double>(w.count() / 16 + 8);
}

void expect_reference(ModelLibrary& library, DType x, DType y, WeightType type, const Shape& s,
                      bool extras) {
  const StoredWeights weights(type, s.outputs, s.cols, kSeed, in_blocks(type) ? 1 : 0);
  const Matrix a(x, s.rows, s.cols, 1), addend(y, s.rows, s.outputs, 2), bias(y, 1, s.outputs, 3);
  LinearOptions options;
  if (extras) options = {bias.view().data, addend.view().data};
  const Matrix start(y, s.rows, s.outputs, 4);
  Matrix expected(start), found(start);
  ReferenceOps().linear(expected.view(), a.view(), weights.matrix(), options);
  run(library, {found.view(), a.view(), weights.matrix(), options});
  for (std::int64_t j = 0; j < s.outputs; ++j) {
    List<float> w(s.cols);
    widen_blocks(type, {weights.matrix().row(j), to_size(weights.matrix().row_bytes())}, w);
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const double far = allowed(x, type, a, i, w);
      const float want = expected.value(i, j), got = found.value(i, j);
      const double rounding = far == 0 || y == DType::f32 ? 0 : std::abs(want) * 0x1p-8;
      ASSERT_TRUE(same(want, got) || std::abs(double{want} - got) <= far + rounding)
          << name_of(x) << " x " << name_of(type) << " > " << name_of(y) << ", " << s.rows << " x "
          << s.outputs << " x " << s.cols << (extras ? " with extras" : "") << ", seed " << kSeed
          << ": y[" << i << "][" << j << "] expected " << want << ", found " << got;
    }
  }
}

TEST_P(EveryInstructionSet, GivesTheReferencesBits) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  const std::int64_t block = grain_of(GetParam()).per;
  for_sets(false, [&] {
    for (const DType x : {DType::f32, DType::bf16}) {
      for (const std::int64_t blocks : {1, 3, 9}) {
        const std::int64_t cols = block * blocks;
        for (const auto& [rows, outputs] : {std::pair{1, 1}, {1, 9}, {2, 5}, {7, 6}, {33, 18}}) {
          expect_reference(library, x, x, GetParam(), {rows, outputs, cols}, rows == 7);
          if (rows != 33) {
            expect_reference(library, x, DType::f32, GetParam(), {rows, outputs, cols}, rows == 2);
          }
          if (HasFatalFailure()) return;
        }
      }
      expect_reference(library, x, x, GetParam(), {3, 2, 0}, true);
    }
  });
  for_sets(true, [&] {
    expect_reference(library, DType::bf16, DType::bf16, GetParam(), {2, 5, 5 * block}, true);
  });
}

// Memory whose last byte is followed by a page that nobody may touch.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::span<const std::byte> bytes) {
    const auto page = to_size(::sysconf(_SC_PAGESIZE));
    const std::size_t used = (bytes.size() + page - 1) / page * page;
    size_ = used + page;
    all_ = static_cast<std::byte*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(all_, MAP_FAILED);
    EXPECT_EQ(::mprotect(all_ + used, page, PROT_NONE), 0);
    data_ = all_ + used - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  ~GuardedBytes() { ::munmap(all_, size_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  const std::byte* data() const { return data_; }

 private:
  std::byte* all_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Files end where weights end: a vector that is loaded past them would end the process.
TEST_P(EveryInstructionSet, ReadsNothingBehindTheLastRow) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  const WeightType type = GetParam();
  for_sets(false, [&] {
    for (const std::int64_t cols : {grain_of(type).per, 3 * grain_of(type).per}) {
      const StoredWeights weights(type, 7, cols, kSeed);
      const GuardedBytes guarded({weights.matrix().row(0), to_size(weights.matrix().bytes())});
      WeightMatrix at_end = weights.matrix();
      at_end.data = guarded.data();
      for (const DType x : {DType::f32, DType::bf16}) {
        for (const std::int64_t rows : {1, 5, 40}) {
          const Matrix a(x, rows, cols, 1), start(x, rows, 7, 4);
          Matrix expected(start), found(start);
          run(library, {expected.view(), a.view(), weights.matrix(), {}});
          run(library, {found.view(), a.view(), at_end, {}});
          ASSERT_TRUE(expected == found) << name_of(x) << " x " << name_of(type);
        }
      }
    }
  });
}

// More rows than are prepared at once, and wide ones, at one thread and two: each of them is what
// it is by itself.
TEST_P(EveryInstructionSet, ARowKnowsNothingOfItsNeighbours) {
  ThreadPool one(1), two(2);
  CpuModelLibrary alone(one), shared(two);
  const WeightType type = GetParam();
  const StoredWeights weights(type, 70, 768, kSeed);
  for_sets(false, [&] {
    for (const DType x : {DType::f32, DType::bf16}) {
      const Matrix a(x, 300, 768, 1);
      const Matrix start(x, 300, 70, 4);
      Matrix by_one(start), by_two(start), single(start);
      run(alone, {by_one.view(), a.view(), weights.matrix(), {}});
      run(shared, {by_two.view(), a.view(), weights.matrix(), {}});
      ASSERT_TRUE(by_one == by_two) << name_of(type) << " depends on the threads";
      for (const std::int64_t i : {0, 1, 32, 255, 256, 299}) {
        run(alone, {single.row(i), a.row(i), weights.matrix(), {}});
        for (std::int64_t j = 0; j < 70; ++j) {
          ASSERT_TRUE(same(single.value(i, j), by_one.value(i, j)))
              << name_of(x) << " x " << name_of(type) << ": row " << i << ", column " << j << " is "
              << single.value(i, j) << " alone and " << by_one.value(i, j) << " among 300";
        }
      }
    }
  });
}

TEST_P(EveryInstructionSet, WhatIsNotFiniteStaysInItsRow) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  const WeightType type = GetParam();
  StoredWeights weights(type, 10, 512, kSeed);
  if (in_blocks(type)) {
    const Bytes row = weights.matrix().row_bytes();
    weights.set_scale(4 * row + scale_places(type).front(), 0x7e00);  // NaN
    weights.set_scale(5 * row + scale_places(type).back(), 0x7c00);   // infinity
  }
  for_sets(false, [&] {
    for (const DType x : {DType::f32, DType::bf16}) {
      Matrix a(x, 14, 512, 1);
      a.set(2, 300, std::numeric_limits<float>::infinity());
      a.set(13, 511, std::nanf(""));
      for (std::int64_t k = 0; k < 512; ++k) a.set(6, k, 0.0f);
      const Matrix start(DType::f32, 14, 10, 4);
      Matrix expected(start), found(start);
      ReferenceOps().linear(expected.view(), a.view(), weights.matrix(), {});
      run(library, {found.view(), a.view(), weights.matrix(), {}});
      for (std::int64_t i = 0; i < 14; ++i) {
        for (std::int64_t j = 0; j < 10; ++j) {
          const bool bad = i == 2 || i == 13 || (in_blocks(type) && (j == 4 || j == 5));
          ASSERT_EQ(std::isfinite(found.value(i, j)), !bad)
              << name_of(x) << " x " << name_of(type) << " [" << i << "][" << j << "]";
          ASSERT_EQ(std::isnan(found.value(i, j)), std::isnan(expected.value(i, j)));
        }
      }
      EXPECT_EQ(found.value(6, 0), 0.0f) << name_of(type);
    }
  });
}

// Half a scale is the most that rounding takes off a number, and 2^-15 of one that dividing does;
// what is left are the roundings of sums.
TEST_P(EveryInstructionSet, EightBitsAreAsNearAsTheirScales) {
  const WeightType type = GetParam();
  if (!in_blocks(type)) GTEST_SKIP() << "plain numbers are not narrowed";
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  const StoredWeights weights(type, 30, 1024, kSeed);
  const Matrix a(DType::bf16, 5, 1024, 1), start(DType::f32, 5, 30, 4);
  Matrix y(start);
  run(library, {y.view(), a.view(), weights.matrix(), {}});
  double worst = 0;
  for (std::int64_t j = 0; j < 30; ++j) {
    List<float> w(std::int64_t{1024});
    widen_blocks(type, {weights.matrix().row(j), to_size(weights.matrix().row_bytes())}, w);
    // Where there are offsets, numbers are differences of larger ones, which are rounded.
    float largest = 0;
    for (const float value : w) largest = std::max(largest, std::abs(value));
    for (std::int64_t i = 0; i < 5; ++i) {
      double exact = 0, bound = 0;
      for (std::int64_t k = 0; k < 1024; k += 32) {
        float most = 0;
        for (std::int64_t l = k; l < k + 32; ++l) most = std::max(most, std::abs(a.value(i, l)));
        for (std::int64_t l = k; l < k + 32; ++l) {
          exact += double{a.value(i, l)} * w[l];
          bound += most / 127 * (0.5 + 0x1p-15) * std::abs(double{w[l]});
          bound += 16 * 0x1p-23 * most * 8 * largest;
        }
      }
      ASSERT_LE(std::abs(exact - y.value(i, j)), bound) << name_of(type) << " " << i << " " << j;
      worst = std::max(worst, std::abs(exact - y.value(i, j)) / bound);
    }
  }
  EXPECT_GT(worst, 1e-4) << "numbers were not narrowed at all";
}

TEST_P(EveryInstructionSet, EmbedsWidenedRows) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  const std::int64_t cols = grain_of(GetParam()).per * 9;
  const StoredWeights table(GetParam(), 12, cols, kSeed, in_blocks(GetParam()) ? 1 : 0);
  const std::vector<std::int32_t> ids = {14, 3, 12, 2, 14, 99, 7};  // of a piece from 3 on
  for_sets(false, [&] {
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const float scale : {1.0f, 2.34375f, 0.3f}) {
        const Matrix start(type, 7, cols, 4);
        Matrix expected(start), found(start);
        ReferenceOps().embed(expected.view(), table.matrix(), ids, scale, 3);
        CpuOps(library, {}).embed(found.view(), table.matrix(), ids, scale, 3);
        ASSERT_TRUE(expected == found) << name_of(GetParam()) << " to " << name_of(type);
        ASSERT_TRUE(same(found.value(3, 0), start.value(3, 0)));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, EveryInstructionSet, testing::ValuesIn(kWeightTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(EightBitRow, ByHand) {
  std::vector<float> x(96, 0.0f);
  x[0] = 127, x[1] = -0.5f, x[2] = 1.5f, x[3] = 2.5f;  // ties to even
  x[40] = 0x1p-101f;
  x[70] = std::numeric_limits<float>::infinity();
  const reference::EightBitRow row = reference::eight_bit_row(x);
  EXPECT_EQ(row.scale[0], 1.0f);
  EXPECT_EQ(row.q[0], 127);
  EXPECT_EQ(row.q[1], 0);
  EXPECT_EQ(row.q[2], 2);
  EXPECT_EQ(row.q[3], 2);
  EXPECT_EQ(row.scale[1], 0.0f);
  EXPECT_EQ(row.q[40], 0);
  EXPECT_TRUE(std::isnan(row.scale[2]));
  EXPECT_EQ(row.q[70], 0);
}

TEST(LinearScratch, OneByteTooSmallIsRefused) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  for (const WeightType type : {WeightType::f16, WeightType::bf16, WeightType::q4_k}) {
    const StoredWeights weights(type, 20, 256, kSeed);
    const Matrix a(DType::bf16, 40, 256, 1), y(DType::bf16, 40, 20, 2);
    const Linear call{y.view(), a.view(), weights.matrix(), {}};
    CountingOps counting(library);
    counting.linear(call);
    const CountingOps::Count count = counting.take();
    EXPECT_EQ(count.flops, 2.0 * 40 * 20 * 256);
    EXPECT_EQ(count.bytes, 2.0 * 40 * 276 + static_cast<double>(weights.matrix().bytes()));
    EXPECT_EQ(count.scratch, library.linear_scratch(call));
    EXPECT_EQ(count.calls[0].shortest, 20);
    EXPECT_EQ(estimate_needs("cpu", 2)->linear_scratch(call), count.scratch);
    std::vector<std::byte> scratch(to_size(count.scratch));
    auto with_less = library.ops({.scratch = std::span(scratch).first(scratch.size() - 1)});
    EXPECT_THROW(with_less->linear(call), Error) << name_of(type);
    auto with_all = library.ops({.scratch = scratch});
    EXPECT_NO_THROW(with_all->linear(call)) << name_of(type);
  }
}

TEST(LinearShapes, OtherColumnsAreRefused) {
  ThreadPool pool(1);
  CpuModelLibrary library(pool);
  const Matrix a(DType::f32, 2, 64, 1), y(DType::f32, 2, 4, 2);
  const StoredWeights narrow(WeightType::q8_0, 4, 32, kSeed), few(WeightType::q8_0, 3, 64, kSeed);
  EXPECT_THROW(run(library, {y.view(), a.view(), narrow.matrix(), {}}), Error);
  EXPECT_THROW(run(library, {y.view(), a.view(), few.matrix(), {}}), Error);
}

}  // namespace
}  // namespace ebb::kernels
