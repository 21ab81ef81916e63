// CpuOps against ReferenceOps over the table of cases: within rounding, and bitwise the same at any
// number of threads (a promise: results depend on shapes and values alone).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "base/thread_pool.h"
#include "ebb/error.h"
#include "heap_watch.h"
#include "hwy/targets.h"
#include "kernels/counting_ops.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/op_table.h"
#include "kernels/reference/reference_ops.h"

namespace ebb::kernels {
namespace {

constexpr std::uint64_t kSeed = 7;

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> cases;
  const DType f = DType::f32, b = DType::bf16;
  for (const auto& [in, out] : {std::pair{f, f}, {b, b}, {b, f}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const auto& [m, n, k] :
             {std::tuple{1, 1, 1}, {3, 5, 7}, {16, 16, 16}, {33, 129, 65}, {67, 300, 127}}) {
          for (const int extra : {0, 1, 2}) {
            cases.push_back(matmul_case(in, out, {m, n, k, ta, tb, extra == 1, extra, extra * 3}));
          }
        }
        cases.push_back(matmul_case(in, out, {1, 700, 96, ta, tb, true, 0, 0}));
        cases.push_back(matmul_case(in, out, {300, 1, 40, ta, tb, true, 2, 1}));
        cases.push_back(matmul_case(in, out, {270, 530, 37, ta, tb, true, 2, 5}));
        cases.push_back(matmul_case(in, out, {64, 96, 1100, ta, tb, true, 1, 0}));
        cases.push_back(matmul_case(in, out, {5, 6, 0, ta, tb, true, 1, 2}));
        cases.push_back(matmul_case(in, out, {0, 6, 4, ta, tb, false, 0, 0}));
      }
    }
  }
  return cases;
}

std::vector<OpCase> attention_cases(DType t) {
  std::vector<OpCase> cases;
  const float scale = 0.25f;
  for (const std::int64_t padding : {0, 3}) {
    for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1, 1, 2, scale},
                                    {2, 5, 5, 4, 2, 8, scale},
                                    {1, 64, 64, 2, 2, 16, scale},
                                    {2, 65, 65, 2, 1, 16, scale},
                                    {1, 300, 300, 3, 1, 20, scale},
                                    {1, 129, 129, 1, 1, 64, scale}}) {
      cases.push_back(attention_case(t, s, padding));
      cases.push_back(attention_backward_case(t, s, padding));
    }
    cases.push_back(attention_case(t, {2, 1, 700, 6, 2, 32, scale}, padding));   // decode
    cases.push_back(attention_case(t, {1, 3, 9, 2, 2, 10, scale}, padding));     // few
    cases.push_back(attention_case(t, {2, 70, 400, 4, 4, 16, scale}, padding));  // continued
    // Windows: of one key, within a tile, over tiles that some rows do not see, wider than needed.
    for (const std::int64_t window : {1, 65, 257, 1000}) {
      const AttentionShape s{1, 600, 600, 2, 1, 6, scale, window};
      if (padding > 0) cases.push_back(attention_case(t, s, padding));
      if (padding > 0) cases.push_back(attention_backward_case(t, s, padding));
      cases.push_back(attention_case(t, {2, 70, 700, 2, 2, 16, scale, window}, padding));
      cases.push_back(attention_case(t, {2, 3, 700, 4, 2, 16, scale, window}, padding));
    }
  }
  return cases;
}

// Rows whole and by groups, both kinds, weights as they are and as a distance from one.
std::vector<OpCase> norm_cases(DType t, std::int64_t rows, std::int64_t width) {
  std::vector<OpCase> cases;
  const DType f = DType::f32;
  const std::int64_t pad = width % 4;
  for (const LayerNorm::Kind kind : {LayerNorm::Kind::rms, LayerNorm::Kind::layer}) {
    const bool bias = kind == LayerNorm::Kind::layer;
    for (const std::int64_t groups : {1, 3}) {
      const NormShape plain{rows, width, {kind, 1e-5f, 0.0f, groups}, bias};
      const NormShape offset{rows, width, {kind, 1e-5f, 1.0f, groups}, false};
      for (const NormShape& s : {plain, offset}) {
        cases.push_back(norm_case(t, s, {.padding = pad}));
        cases.push_back(norm_case(t, s, {.given = true, .padding = pad}));
        cases.push_back(norm_case(t, s, {.in_place = true, .padding = pad}));
        cases.push_back(norm_backward_case(t, t, s, {.padding = pad}));
        cases.push_back(norm_backward_case(t, f, s, {.padding = pad}));
        cases.push_back(norm_backward_case(t, t, s, {.in_place = true, .padding = pad}));
      }
    }
  }
  return cases;
}

std::vector<OpCase> streaming_cases(DType t) {
  std::vector<OpCase> cases;
  const DType f = DType::f32;
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                   {3, 7},
                                   {5, 16},
                                   {17, 33},
                                   {2, 129},
                                   {300, 65},
                                   {40, 1031}}) {
    const std::int64_t pad = cols % 4;
    cases.push_back(column_sums_case(t, t, rows, cols, pad));
    cases.push_back(column_sums_case(t, f, rows, cols, pad));
    cases.push_back(add_row_case(t, rows, cols, pad));
    for (const float scale : {1.0f, 2.34375f, 0.3f}) {
      cases.push_back(embed_case(t, {rows, cols, 11, scale}, pad));
      cases.push_back(embed_backward_case(t, {rows, cols, 11, scale}, pad));
    }
    for (OpCase& made : norm_cases(t, rows, cols)) cases.push_back(std::move(made));
    for (const Activation act : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
      for (const bool gated : {false, true}) {
        cases.push_back(activate_case(t, {rows, cols, act, gated}, pad));
        for (const auto results :
             {ActivationResults::gradient, ActivationResults::both, ActivationResults::in_place}) {
          cases.push_back(activate_backward_case(t, {rows, cols, act, gated}, results, pad));
        }
      }
    }
    cases.push_back(cross_entropy_case(t, rows, cols, false, pad));
    cases.push_back(cross_entropy_case(f, rows, cols, true, pad));
    cases.push_back(convert_case(t, f, rows, cols, pad));
    cases.push_back(convert_case(f, t, rows, cols, pad));
  }
  cases.push_back(cross_entropy_case(t, 3, 50257, false, 0));
  for (const bool inverse : {false, true}) {
    cases.push_back(rope_case(t, 7, {3, 10, 2, 4, inverse}, 1));
    cases.push_back(rope_case(t, 130, {2, 64, 0, 65, inverse}, 0));
  }
  return cases;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = matmul_cases();
  for (const DType type : {DType::f32, DType::bf16}) {
    for (auto& made :
         {attention_cases(type), streaming_cases(type), activated_product_cases(type)}) {
      cases.insert(cases.end(), made.begin(), made.end());
    }
  }
  return cases;
}

// Runs a case with exactly the scratch that the library asks for.
void run_with_scratch(ModelLibrary& library, const OpCase& c, Buffers& buffers) {
  CountingOps counting(library);
  c.run(counting, buffers);
  std::vector<std::byte> scratch(static_cast<std::size_t>(counting.take().scratch));
  auto ops = library.ops({.scratch = scratch});
  c.run(ops, buffers);
}

double allowed(const OpCase& c, DType type, double expected) {
  const double rounding = type == DType::f32 ? 1e-5 : 0x1p-7;
  return c.tolerance + (c.tolerance == 0 ? 0 : rounding * std::abs(expected));
}

void expect_near(const OpCase& c, const Buffer& expected, const Buffer& found) {
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

void expect_same_bits(const OpCase& c, const Buffer& expected, const Buffer& found) {
  const auto& a = expected.bytes();
  const auto& b = found.bytes();
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  ASSERT_EQ(at, static_cast<std::ptrdiff_t>(a.size()))
      << c.name << ": " << expected.operand().name << " depends on the threads, at byte " << at;
}

class ModelOpsTable : public testing::TestWithParam<bool> {};

// With and without bf16 products: machines below AVX-512 take the second way.
TEST_P(ModelOpsTable, CpuMatchesReferenceAtAnyThreadCount) {
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  CpuModelLibrary libraries[] = {CpuModelLibrary(pools[0], GetParam()),
                                 CpuModelLibrary(pools[1], GetParam()),
                                 CpuModelLibrary(pools[2], GetParam())};
  ReferenceOps reference;
  for (const OpCase& c : all_cases()) {
    Buffers inputs = c.make(kSeed);
    if (c.prepare) c.prepare(reference, inputs);
    Buffers expected = inputs;
    c.run(reference, expected);
    Buffers found[] = {inputs, inputs, inputs};
    for (int t = 0; t < 3; ++t) run_with_scratch(libraries[t], c, found[t]);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].operand().type == DType::i32) continue;
      if (inputs[i].operand().role == Role::input) {
        expect_same_bits(c, inputs[i], found[0][i]);
      } else if (inputs[i].operand().role == Role::scratch) {
        ASSERT_TRUE(found[0][i].padding_untouched()) << c.name;
      } else {
        expect_near(c, expected[i], found[0][i]);
      }
      expect_same_bits(c, found[0][i], found[1][i]);
      expect_same_bits(c, found[0][i], found[2][i]);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Products, ModelOpsTable, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "native" : "widened"; });

// Other vector widths are other code: each one the machine has is tried.
TEST(CpuOps, MatchesReferenceOnEveryInstructionSet) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  ReferenceOps reference;
  const auto use = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  };
  std::vector<OpCase> cases;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (auto& made : {attention_cases(type), streaming_cases(type)}) {
      cases.insert(cases.end(), made.begin(), made.end());
    }
  }
  int tried = 0;
  for (const OpCase& c : cases) {
    Buffers inputs = c.make(kSeed);
    if (c.prepare) c.prepare(reference, inputs);
    Buffers expected = inputs;
    c.run(reference, expected);
    tried = 0;
    for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1, ++tried) {
      use(left & -left);
      SCOPED_TRACE(hwy::TargetName(left & -left));
      Buffers found = inputs;
      run_with_scratch(library, c, found);
      use(0);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].operand().role != Role::input) expect_near(c, expected[i], found[i]);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(tried, 1);
}

TEST(CpuOps, ScratchOneByteTooSmallIsRefused) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool, false);  // widening always needs scratch
  for (const OpCase& c : {matmul_case(DType::bf16, DType::bf16, {64, 64, 64}),
                          attention_case(DType::bf16, {1, 64, 64, 1, 1, 16, 1.0f}, 0),
                          attention_case(DType::bf16, {1, 1, 64, 1, 1, 16, 1.0f}, 0),
                          attention_backward_case(DType::bf16, {1, 64, 64, 1, 1, 16, 1.0f}, 0)}) {
    Buffers buffers = c.make(kSeed);
    CountingOps counting(library);
    c.run(counting, buffers);
    const Bytes needed = counting.take().scratch;
    ASSERT_GT(needed, 0) << c.name;
    std::vector<std::byte> scratch(static_cast<std::size_t>(needed));
    auto with_less = library.ops({.scratch = std::span(scratch).first(scratch.size() - 1)});
    EXPECT_THROW(c.run(with_less, buffers), Error) << c.name;
    auto with_all = library.ops({.scratch = scratch});
    EXPECT_NO_THROW(c.run(with_all, buffers)) << c.name;
  }
}

TEST(CpuOps, NotANumberReachesTheResult) {
  ThreadPool pool(1);
  CpuModelLibrary library(pool);
  const float nan = std::nanf("");
  for (const OpCase& c :
       {attention_case(DType::f32, {1, 70, 70, 1, 1, 16, 1.0f}, 0),
        attention_case(DType::f32, {1, 1, 70, 1, 1, 16, 1.0f}, 0),
        activate_case(DType::f32, {70, 16, Activation::silu, true}, 0),
        activate_case(DType::f32, {70, 16, Activation::gelu, false}, 0),
        activate_case(DType::f32, {70, 16, Activation::gelu_tanh, false}, 0),
        cross_entropy_case(DType::f32, 70, 40, false, 0), norm_case(DType::f32, {70, 20}, {}),
        norm_case(DType::f32, {70, 20, {.kind = LayerNorm::Kind::layer}, true}, {})}) {
    Buffers buffers = c.make(kSeed);
    for (Buffer& buffer : buffers) {
      if (buffer.operand().role == Role::input && buffer.operand().type == DType::f32) {
        buffer.floats()[0] = nan;
      }
    }
    run_with_scratch(library, c, buffers);
    EXPECT_TRUE(std::isnan(buffers[0].value(0, 0)))
        << c.name << " found " << buffers[0].value(0, 0);
  }
}

TEST(CpuOps, ConvertRoundsAsToBf16ForAllHalves) {
  // Every bf16 pattern with the low halves around each rounding decision, NaN and denormals too.
  std::vector<float> from;
  for (std::uint32_t high = 0; high < 0x10000u; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      from.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const auto count = static_cast<std::int64_t>(from.size());
  std::vector<bf16> to(from.size());
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  CpuOps ops(library, {});
  ops.convert({to.data(), DType::bf16, 1, count, count},
              {from.data(), DType::f32, 1, count, count});
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(to[i].bits, to_bf16(from[i]).bits)
        << "index " << i << ", bits " << std::bit_cast<std::uint32_t>(from[i]);
  }
}

TEST(CpuOps, SumIsInOrderAndFillZeroStaysInside) {
  ThreadPool pool(3);
  CpuModelLibrary library(pool);
  CpuOps ops(library, {});
  const std::vector<float> values{1e8f, 1.0f, -1e8f, 0.25f};
  double total = -1;
  ops.sum(&total, values.data(), 4);
  EXPECT_EQ(total, 1.25);
  std::vector<std::byte> bytes(700001, std::byte{1});
  ops.fill_zero(bytes.data() + 1, 699999);
  EXPECT_EQ(bytes.front(), std::byte{1});
  EXPECT_EQ(bytes.back(), std::byte{1});
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), 699999);
}

// Ops made for two tasks do not know of each other, and making them takes no memory.
TEST(CpuOps, OpsOfTwoContextsKeepTheirOwnScratch) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool, false);
  const OpCase c = matmul_case(DType::bf16, DType::bf16, {64, 64, 64});
  Buffers first = c.make(kSeed), second = first;
  CountingOps counting(library);
  c.run(counting, first);
  const auto bytes = static_cast<std::size_t>(counting.take().scratch);
  std::vector<std::byte> one(bytes), two(bytes, std::byte{1});
  const HeapWatch watch;
  auto ops_one = library.ops({.scratch = one});
  auto ops_two = library.ops({.scratch = two});
  EXPECT_EQ(HeapWatch::works() ? watch.peak() : 0, 0);
  c.run(ops_one, first);
  EXPECT_EQ(std::count(two.begin(), two.end(), std::byte{1}), static_cast<std::ptrdiff_t>(bytes));
  c.run(ops_two, second);
  expect_same_bits(c, first[0], second[0]);
}

TEST(CpuModelLibrary, CountsWhatIsMadeAfterItWasFrozen) {
  ThreadPool pool(1);
  CpuModelLibrary library(pool);
  const ConstView a{nullptr, DType::f32, 8, 16, 16}, b{nullptr, DType::f32, 16, 4, 4};
  const View c{nullptr, DType::f32, 8, 4, 4};
  EXPECT_EQ(library.entries(), 0);
  library.prepare({c, a, b});
  EXPECT_GT(library.entries(), 0);
  EXPECT_EQ(library.entries_since_freeze(), 0);
  library.freeze();
  library.prepare({c, a, b});
  EXPECT_EQ(library.entries_since_freeze(), 0);
  library.prepare({c, a, b, {.addend = &library}});
  EXPECT_EQ(library.entries_since_freeze(), 1);
}

TEST(MatmulGrid, CoversWithoutSlivers) {
  for (const std::int64_t m : {1, 15, 17, 129, 257, 300, 1000, 4096}) {
    for (const std::int64_t n : {1, 16, 100, 513, 1536, 50257}) {
      for (const std::int64_t k : {1, 64, 1024, 8192}) {
        const TileGrid grid = matmul_grid(m, n, k);
        ASSERT_TRUE(grid.rows >= 1 && grid.rows <= m && grid.rows <= 256) << m << " " << grid.rows;
        ASSERT_TRUE(grid.cols >= 1 && grid.cols <= n && grid.cols <= 512) << n << " " << grid.cols;
      }
    }
  }
  // Enough tiles for many threads where there is work for them.
  const TileGrid grid = matmul_grid(1024, 1024, 1024);
  EXPECT_EQ((1024 / grid.rows) * (1024 / grid.cols), 16);
}

TEST(CountingOps, CountsWithoutMemory) {
  ThreadPool pool(1);
  CpuModelLibrary library(pool, false);
  CountingOps counting(library);
  const View c{nullptr, DType::f32, 8, 4, 4};
  const ConstView a{nullptr, DType::bf16, 8, 16, 16}, b{nullptr, DType::bf16, 4, 16, 16};
  MatmulOptions options;
  options.transpose_b = true;
  counting.matmul(c, a, b, options);
  CountingOps::Count count = counting.take();
  EXPECT_EQ(count.flops, 2.0 * 8 * 4 * 16);
  EXPECT_EQ(count.bytes, 8 * 16 * 2 + 4 * 16 * 2 + 8 * 4 * 4);
  EXPECT_EQ(count.scratch, library.matmul_scratch(c, a, b, options));
  ASSERT_EQ(count.calls.size(), 1u);
  EXPECT_EQ(count.calls[0].kind, CountingOps::Kind::product);
  EXPECT_EQ(count.calls[0].shortest, 4);
  EXPECT_EQ(counting.take().flops, 0);

  // 3 queries over 5 keys see 3 + 4 + 5 of them.
  const View x{nullptr, DType::f32, 3, 16, 16}, keys{nullptr, DType::f32, 5, 8, 8};
  counting.attention(x, nullptr, x, keys, keys, {1, 3, 5, 2, 1, 8, 1.0f});
  count = counting.take();
  EXPECT_EQ(count.flops, 12 * 2 * (4.0 * 8 + 4));
  EXPECT_EQ(count.bytes, 4.0 * (2 * 3 * 16 + 2 * 5 * 8));
  // With a window of 4: 3 + 4 + 4; with one of 2: 2 + 2 + 2.
  for (const auto& [window, pairs] : {std::pair{4, 11}, {2, 6}, {5, 12}}) {
    counting.attention(x, nullptr, x, keys, keys, {1, 3, 5, 2, 1, 8, 1.0f, window});
    EXPECT_EQ(counting.take().flops, pairs * 2 * (4.0 * 8 + 4)) << "window " << window;
  }
  counting.fill_zero(nullptr, 100);
  EXPECT_EQ(counting.take().bytes, 100);
}

}  // namespace
}  // namespace ebb::kernels
