// Products, sums, activations, embeddings, losses and conversions on a GPU.
#include "gpu/model_ops_suite.h"
#include "kernels/cuda/model/fused_activation.h"

namespace ebb::kernels {
namespace {

class CudaModelOps : public ModelOpsSuite {};

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> cases;
  const DType f = DType::f32, b = DType::bf16;
  for (const auto& [in, out] : {std::pair{f, f}, {b, b}, {b, f}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                      {3, 5, 7},
                                      {16, 16, 16},
                                      {33, 129, 65},
                                      {128, 256, 64},
                                      {67, 300, 127}}) {
          for (const int extra : {0, 1, 2}) {
            for (const bool bias : {false, true}) {
              cases.push_back(matmul_case(in, out, {m, n, k, ta, tb, bias, extra, extra * 3}));
              cases.push_back(matmul_case(in, out, {m, n, k, ta, tb, bias, extra, 0}));
            }
          }
        }
        cases.push_back(matmul_case(in, out, {1, 700, 96, ta, tb, true, 0, 0}));
        cases.push_back(matmul_case(in, out, {300, 1, 40, ta, tb, true, 2, 1}));
        cases.push_back(matmul_case(in, out, {64, 96, 1100, ta, tb, true, 1, 0}));
        cases.push_back(matmul_case(in, out, {64, 64, 8192, ta, tb, false, 0, 0}));
        cases.push_back(matmul_case(in, out, {5, 6, 0, ta, tb, true, 1, 2}));
        cases.push_back(matmul_case(in, out, {0, 6, 4, ta, tb, false, 0, 0}));
      }
    }
  }
  // Tensor cores cut the tail of each partial sum instead of rounding it.
  for (OpCase& c : cases) c.tolerance *= 4;
  return cases;
}

TEST_F(CudaModelOps, MatmulMatchesReference) {
  for (const OpCase& c : matmul_cases()) {
    expect_matches_reference(c);
    if (HasFatalFailure()) return;
  }
}

std::vector<OpCase> streaming_cases(DType t) {
  std::vector<OpCase> cases;
  const DType f = DType::f32;
  for (const auto& [rows, cols] : kSizes) {
    const std::int64_t pad = cols % 4;
    cases.push_back(column_sums_case(t, t, rows, cols, pad));
    cases.push_back(column_sums_case(t, f, rows, cols, pad));
    cases.push_back(add_row_case(t, rows, cols, pad));
    for (const float scale : {1.0f, 0.7f, 45.25f}) {
      cases.push_back(embed_case(t, {rows, cols, 11, scale}, pad));
      cases.push_back(embed_backward_case(t, {rows, cols, 11, scale}, pad));
    }
    cases.push_back(cross_entropy_case(t, rows, cols, false, pad));
    cases.push_back(cross_entropy_case(f, rows, cols, true, pad));
    cases.push_back(convert_case(t, f, rows, cols, pad));
    cases.push_back(convert_case(f, t, rows, cols, pad));
  }
  cases.push_back(cross_entropy_case(t, 3, 50257, false, 0));
  cases.push_back(cross_entropy_case(t, 3, 151936, false, 0));
  cases.push_back(cross_entropy_case(t, 300, 32776, false, 0));
  cases.push_back(cross_entropy_case(t, 5, 32800, false, 16));
  cases.push_back(cross_entropy_case(t, 4, 500008, false, 0));
  for (const std::int64_t vocabulary : {1, 7, 5000}) {
    cases.push_back(embed_backward_case(t, {3001, 40, vocabulary}, 0));
    cases.push_back(embed_backward_case(t, {1030, 1500, vocabulary, 1.3f}, 1));
  }
  for (const bool inverse : {false, true}) {
    cases.push_back(rope_case(t, 7, {3, 10, 2, 4, inverse}, 1));
    cases.push_back(rope_case(t, 130, {2, 64, 0, 65, inverse}, 0));
    cases.push_back(rope_case(t, 33, {5, 128, 7, 16, inverse}, 0));
    cases.push_back(rope_case(t, 33, {5, 128, 7, 16, inverse}, 5));
  }
  return cases;
}

std::vector<OpCase> activation_cases(DType t) {
  std::vector<OpCase> cases;
  for (const auto& [rows, cols] : kSizes) {
    for (const Activation activation :
         {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
      for (const bool gated : {false, true}) {
        const ActivationShape s{rows, cols, activation, gated};
        cases.push_back(activate_case(t, s, cols % 4));
        for (const auto results :
             {ActivationResults::gradient, ActivationResults::both, ActivationResults::in_place}) {
          cases.push_back(activate_backward_case(t, s, results, cols % 4));
        }
      }
    }
  }
  return cases;
}

TEST_F(CudaModelOps, StreamingOpsMatchReference) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const OpCase& c : streaming_cases(type)) {
      expect_matches_reference(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaModelOps, ActivationsMatchReference) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const OpCase& c : activation_cases(type)) {
      expect_matches_reference(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CudaModelOps, ActivatedProductsMatchReference) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const OpCase& c : activated_product_cases(type)) {
      expect_matches_reference(c);
      if (HasFatalFailure()) return;
    }
  }
}

// Several tiles for each multiprocessor, of which one is not whole.
TEST_F(CudaModelOps, LargeActivatedProductsMatchReference) {
  const ActivatedProduct p{{3100, 3848, Activation::silu, true}, 24};
  for (const OpCase& c :
       {product_activate_case(DType::bf16, p, true, 0),
        product_activate_backward_case(DType::bf16, p, ActivationResults::gradient, 8),
        product_activate_backward_case(DType::bf16, p, ActivationResults::in_place, 0)}) {
    expect_matches_reference(c);
    if (HasFatalFailure()) return;
  }
}

// What is kept, made again, or made by a pass of its own is the plan's choice, or the shape's.
TEST_F(CudaModelOps, ActivatedProductsHaveTheSameBitsHoweverTheyAreMade) {
  const ActivatedProduct p{{300, 400, Activation::silu, true}, 136};
  const auto done = [&](const OpCase& c, Buffers buffers) {
    run(c, buffers, 0xff);
    return buffers;
  };
  const OpCase value = product_activate_case(DType::bf16, p, true, 0);
  const OpCase alone = product_activate_case(DType::bf16, p, false, 0);
  const Buffers forward = done(value, value.make(kSeed));
  expect_same_bits(value, forward[1], done(alone, alone.make(kSeed))[1], "depends on h");

  const OpCase pass = activate_case(DType::bf16, p.shape, 0);
  Buffers x = pass.make(kSeed);
  x[1] = forward[1];
  expect_same_bits(pass, forward[0], done(pass, x)[0], "is another by a pass of its own");

  const auto backward = [&](ActivationResults results) {
    const OpCase c = product_activate_backward_case(DType::bf16, p, results, 0);
    Buffers buffers = c.make(kSeed);
    buffers[2] = forward[1];
    return done(c, buffers);
  };
  const Buffers both = backward(ActivationResults::both);
  expect_same_bits(value, forward[0], both[3], "is another when made again");
  expect_same_bits(value, both[0], backward(ActivationResults::gradient)[0], "depends on h");
}

// Else the gradient of h would have been written.
TEST_F(CudaModelOps, GatedActivationsAreFusedOnHopper) {
  if (fused_activation_version() == "passes") GTEST_SKIP() << "not in this build or on this device";
  const ActivatedProduct p{{300, 400, Activation::silu, true}, 136};
  const OpCase c = product_activate_backward_case(DType::bf16, p, ActivationResults::gradient, 0);
  const Buffers before = c.make(kSeed);
  Buffers after = before;
  run(c, after, 0xff);
  expect_same_bits(c, before[1], after[1], "was written");
}

TEST_F(CudaModelOps, ScratchOneByteTooSmallIsRefused) {
  for (const OpCase& c : {matmul_case(DType::bf16, DType::bf16, {64, 64, 64}),
                          attention_backward_case(DType::f32, {1, 64, 64, 1, 1, 16, 1.0f}, 0)}) {
    Buffers buffers = c.make(kSeed);
    CountingOps counting(*library_);
    c.run(counting, buffers);
    const Bytes needed = counting.take().scratch;
    ASSERT_GT(needed, 256) << c.name;
    mirror_->mirror(buffers, needed, 0xff);
    // What is asked for has 256 bytes to align with; the mirror is aligned and needs none.
    const auto exact = static_cast<std::size_t>(needed - 256);
    const auto run_with = [&](std::size_t bytes) {
      auto ops = this->ops(mirror_->scratch().first(bytes));
      MirroredOps mirrored(ops, *mirror_);
      c.run(mirrored, buffers);
    };
    EXPECT_THROW(run_with(exact - 1), Error) << c.name;
    EXPECT_NO_THROW(run_with(exact)) << c.name;
  }
}

TEST_F(CudaModelOps, NotANumberReachesTheResult) {
  for (const OpCase& c :
       {matmul_case(DType::f32, DType::f32, {70, 20, 30}),
        attention_case(DType::f32, {1, 70, 70, 1, 1, 16, 1.0f}, 0),
        attention_case(DType::f32, {1, 1, 70, 1, 1, 16, 1.0f}, 0),
        attention_case(DType::f32, {1, 70, 70, 1, 1, 16, 1.0f, 8}, 0),
        activate_case(DType::f32, {70, 16, Activation::silu}, 0),
        activate_case(DType::f32, {70, 16, Activation::gelu, false}, 0),
        activate_case(DType::f32, {70, 16, Activation::gelu_tanh, false}, 0),
        cross_entropy_case(DType::f32, 70, 40, false, 0), norm_case(DType::f32, {70, 20}, {}),
        norm_case(DType::f32, {70, 20, {LayerNorm::Kind::layer, 1e-5f, 0.0f, 3}}, {}),
        add_row_case(DType::f32, 70, 20, 0)}) {
    Buffers buffers = c.make(kSeed);
    for (Buffer& buffer : buffers) {
      if (buffer.operand().role == Role::input && buffer.operand().type == DType::f32) {
        buffer.floats()[0] = std::nanf("");
      }
    }
    run(c, buffers, 0xff);
    EXPECT_TRUE(std::isnan(buffers[0].value(0, 0)))
        << c.name << " found " << buffers[0].value(0, 0);
  }
}

TEST_F(CudaModelOps, ConvertRoundsAsToBf16ForAllHalves) {
  // Every bf16 pattern with the low halves around each rounding decision, NaN and denormals too.
  const std::vector<std::uint32_t> lows{0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu};
  const auto count = static_cast<std::int64_t>(0x10000 * lows.size());
  Buffers buffers{Buffer({"dst", Role::output, DType::bf16, 1, count}, kSeed),
                  Buffer({"src", Role::output, DType::f32, 1, count}, kSeed)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto high = static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(lows.size());
    const std::uint32_t low = lows[static_cast<std::size_t>(i) % lows.size()];
    buffers[1].floats()[i] = std::bit_cast<float>(high << 16 | low);
  }
  mirror_->mirror(buffers, 0, 0xff);
  auto ops = this->ops({});
  MirroredOps(ops, *mirror_).convert(buffers[0].view(), buffers[1].view());
  for (std::int64_t i = 0; i < count; ++i) {
    const float from = buffers[1].floats()[i];
    ASSERT_EQ(static_cast<const bf16*>(buffers[0].data())[i].bits, to_bf16(from).bits)
        << "bits " << std::bit_cast<std::uint32_t>(from);
  }
}

// Kernels round by the hardware, two elements at a time: to nearest even, denormals too.
TEST_F(CudaModelOps, StoresRoundAsToBf16) {
  constexpr std::int64_t count = 0x10000;
  Buffers buffers{Buffer({"x", Role::output, DType::bf16, 1, count}, kSeed),
                  Buffer({"row", Role::output, DType::bf16, 1, count}, kSeed)};
  auto* const x = static_cast<bf16*>(buffers[0].data());
  auto* const row = static_cast<bf16*>(buffers[1].data());
  std::vector<bf16> before(count);
  for (std::int64_t i = 0; i < count; ++i) {
    // Sums with an exponent of their own size or up to 9 less: all ways to round.
    x[i] = before[static_cast<std::size_t>(i)] = bf16{static_cast<std::uint16_t>(i)};
    const auto exponent = static_cast<std::uint16_t>(i & 0x7f80);
    const std::uint16_t less = static_cast<std::uint16_t>((i % 10) << 7);
    row[i] = bf16{static_cast<std::uint16_t>((exponent > less ? exponent - less : 0) | (i % 127))};
  }
  mirror_->mirror(buffers, 0, 0xff);
  auto ops = this->ops({});
  MirroredOps(ops, *mirror_).add_row(buffers[0].view(), row);
  for (std::int64_t i = 0; i < count; ++i) {
    const bf16 old = before[static_cast<std::size_t>(i)];
    const float sum = to_float(old) + to_float(row[i]);
    const bf16 found = x[i];
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(to_float(found))) << "bits " << old.bits << " + " << row[i].bits;
    } else {
      ASSERT_EQ(found.bits, to_bf16(sum).bits) << "bits " << old.bits << " + " << row[i].bits;
    }
  }
}

TEST_F(CudaModelOps, SumsInFp64AndFillZeroStaysInside) {
  Buffers buffers{Buffer({"values", Role::input, DType::f32, 1, 70001}, kSeed),
                  Buffer({"total", Role::output, DType::f32, 1, 2}, kSeed)};
  double expected = 0;
  for (std::int64_t i = 0; i < 70001; ++i) expected += buffers[0].value(0, i);
  mirror_->mirror(buffers, 0, 0xff);
  auto ops = this->ops({});
  MirroredOps mirrored(ops, *mirror_);
  mirrored.sum(static_cast<double*>(buffers[1].data()), buffers[0].floats(), 70001);
  double total = 0;
  std::memcpy(&total, buffers[1].data(), sizeof total);
  EXPECT_NEAR(total, expected, 1e-9);
  mirrored.sum(static_cast<double*>(buffers[1].data()), buffers[0].floats(), 0);
  std::memcpy(&total, buffers[1].data(), sizeof total);
  EXPECT_EQ(total, 0.0);

  const float last = buffers[0].value(0, 70000);
  mirrored.fill_zero(buffers[0].floats() + 1, 69999 * 4);
  EXPECT_NE(buffers[0].value(0, 0), 0.0f);
  EXPECT_EQ(buffers[0].value(0, 1), 0.0f);
  EXPECT_EQ(buffers[0].value(0, 69999), 0.0f);
  EXPECT_EQ(buffers[0].value(0, 70000), last);
}

}  // namespace
}  // namespace ebb::kernels
